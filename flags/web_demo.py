"""Flags of `serve_demo.py`."""

import pathlib
import sys

from absl import flags

from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.util.errors import UserError


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `serve_demo.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string(
        "discriminator", None, "Export of a discriminator: shades every token.", **options
    )
    flags.DEFINE_string(
        "generator", None, "Export of a generator: alternatives to every token.", **options
    )
    flags.DEFINE_list(
        "tasks", [], "Exports of fine-tuned tasks, separated by commas.", **options
    )
    flags.DEFINE_string(
        "host",
        DemoConfig.host,
        "Address to listen on. Any other than this machine's own lets others use the page, "
        "which has no passwords.",
        **options,
    )
    flags.DEFINE_integer("port", DemoConfig.port, "Port; 0 takes a free one.", **options)
    flags.DEFINE_integer(
        "max_characters", DemoConfig.max_characters, "Of each text of a request.", **options
    )


def demo_config(flag_values: flags.FlagValues = flags.FLAGS) -> DemoConfig:
    """Returns what the flags ask for.

    Raises:
        UserError: for values that cannot be, or a task that is named twice.
    """
    paths = [_path(name) for name in flag_values.tasks]
    tasks = {path.name: path for path in paths}
    if len(tasks) < len(paths):
        raise UserError(
            f"--tasks={','.join(flag_values.tasks)}: the last parts of the folders are the "
            "names of the tasks, and must differ"
        )
    return DemoConfig(
        discriminator=_path(flag_values.discriminator),
        generator=_path(flag_values.generator),
        tasks=tasks,
        host=flag_values.host,
        port=flag_values.port,
        max_characters=flag_values.max_characters,
    )


def _path(given: str | None) -> pathlib.Path | None:
    return pathlib.Path(given).expanduser().resolve() if given else None
