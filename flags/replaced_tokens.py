"""Flags of `show_replaced_tokens.py`, in addition to those of pre-training."""

import dataclasses
import pathlib
import sys

from absl import flags

from electra_tf.config.distribution import refuse_several_hosts
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.console import use_color
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_given_lines
from flags import pretraining
from flags.remote.paths import Role

# The default of --text_file, which the folder of a checkout has.
SENTENCES = "demo/sentences.txt"
# Flags that accept remote paths (gs://…).
REMOTE = {**pretraining.REMOTE, "model_dir": Role.MODEL, "text_file": Role.FILE}


@dataclasses.dataclass(frozen=True)
class ShowConfig:
    """Model and sentences to show.

    Attributes:
        model: the run whose latest checkpoint is used.
        sentences: texts, in order.
        color: whether to use terminal colors.
    """

    model: PretrainingConfig
    sentences: tuple[str, ...]
    color: bool


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, `--text_file` and `--color`."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string("text_file", SENTENCES, "Input text, one sentence per line.", **options)
    flags.DEFINE_boolean(
        "color", None, "Use colors; if unset, only on a terminal without NO_COLOR.", **options
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ShowConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid, or the text file is unreadable or empty.
    """
    model = pretraining.config_from_flags(flag_values)
    refuse_several_hosts(model, "show_replaced_tokens.py")
    path = pathlib.Path(flag_values.text_file)
    lines = read_given_lines(path, "--text_file")
    sentences = tuple(line for line in lines if line.strip())
    if not sentences:
        raise UserError(f"--text_file={path} contains no text")
    return ShowConfig(model, sentences, use_color(flag_values.color))
