"""Flags of `serve_demo.py`."""

import os
import pathlib
import sys

from absl import flags

from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_not_empty
from flags.remote.paths import Role

# Flags that accept remote paths (gs://…).
REMOTE = dict.fromkeys(("discriminator", "generator", "tasks"), Role.EXPORT)


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `serve_demo.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string(
        "discriminator",
        None,
        "Exported discriminator; shades each token by its probability of being replaced.",
        **options,
    )
    flags.DEFINE_string(
        "generator", None, "Exported generator; proposes alternatives to each token.", **options
    )
    flags.DEFINE_list("tasks", [], "Exported fine-tuned tasks, comma-separated.", **options)
    flags.DEFINE_string(
        "host",
        DemoConfig.host,
        "Address to listen on. Any address other than loopback exposes the page, which has no "
        "authentication, to the network.",
        **options,
    )
    flags.DEFINE_integer("port", DemoConfig.port, "Port; 0 picks a free one.", **options)
    flags.DEFINE_list(
        "allowed_hosts",
        [],
        "Comma-separated host names under which the page may be opened, besides --host and "
        "its addresses.",
        **options,
    )
    flags.DEFINE_float(
        "request_seconds",
        DemoConfig.request_seconds,
        "Timeout in seconds for a client to send a request, and again for it to receive the "
        "answer.",
        **options,
    )
    flags.DEFINE_integer(
        "max_characters",
        DemoConfig.max_characters,
        "Maximum length of each text in a request, in characters.",
        **options,
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> DemoConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid, or two tasks have the same name.
    """
    for name in ("discriminator", "generator"):
        check_not_empty(flag_values[name].value, f"--{name}")
    joined = ",".join(flag_values.tasks)
    if len(flag_values.tasks) > 1 and os.path.exists(os.path.expanduser(joined)):
        raise UserError(
            f"--tasks={joined}: commas separate folders; to pass this one, quote it as "
            f"--tasks='\"{joined}\"'"
        )
    paths = [_path(name) for name in flag_values.tasks if name]
    tasks = {path.name: path for path in paths}
    if len(tasks) < len(paths):
        raise UserError(
            f"--tasks={joined}: tasks are named after their folders, "
            "which must have different names"
        )
    return DemoConfig(
        discriminator=_path(flag_values.discriminator),
        generator=_path(flag_values.generator),
        tasks=tasks,
        host=flag_values.host,
        port=flag_values.port,
        allowed_hosts=tuple(flag_values.allowed_hosts),
        max_characters=flag_values.max_characters,
        request_seconds=flag_values.request_seconds,
    )


def _path(given: str | None) -> pathlib.Path | None:
    return pathlib.Path(os.path.expanduser(given)).resolve() if given else None
