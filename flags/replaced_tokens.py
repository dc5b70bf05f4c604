"""Flags of `show_replaced_tokens.py`, beside those of pre-training."""

import dataclasses
import pathlib
import sys

from absl import flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from flags import pretraining


@dataclasses.dataclass(frozen=True)
class ShowConfig:
    """What to show.

    Attributes:
        model: the run whose newest checkpoint is asked.
        sentences: texts, in their order.
        color: whether to use the terminal's colours.
    """

    model: PretrainingConfig
    sentences: tuple[str, ...]
    color: bool


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, `--text_file` and `--color`."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string("text_file", "demo/sentences.txt", "One sentence a line.", **options)
    flags.DEFINE_boolean(
        "color", None, "Use colours; by default where the output is a terminal.", **options
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ShowConfig:
    """Returns what the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, a file that cannot be read, or one
            without text.
    """
    model = pretraining.config_from_flags(flag_values)
    path = pathlib.Path(flag_values.text_file)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"--text_file={path}: {error.strerror}") from error
    sentences = tuple(line for line in lines if line.strip())
    if not sentences:
        raise UserError(f"--text_file={path} holds no text")
    color = flag_values.color
    return ShowConfig(model, sentences, sys.stdout.isatty() if color is None else color)
