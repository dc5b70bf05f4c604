"""Starts a model from a checkpoint of any format: its whole encoder, or nothing."""

from collections.abc import Callable, Iterable

from electra_tf.interop.formats import read_checkpoint
from electra_tf.tf1_checkpoint import (
    ENCODER_SCOPE,
    LoadReport,
    Tf1Variable,
    assign_arrays,
)
from electra_tf.util.errors import UserError


def initialize_from_checkpoint(
    path: str,
    mapping: Iterable[Tf1Variable],
    required: Iterable[Tf1Variable],
    *,
    flag: str,
    say: Callable[[str], None] = print,
) -> LoadReport:
    """Loads what a checkpoint has of a model; moments and steps are left out.

    Args:
        path: a folder, or the prefix of a checkpoint's files.
        mapping: of all variables that may be loaded.
        required: those of the encoder; all of them must be there.
        flag: that errors name.
        say: is told what was matched, missing and unused, and what has no counterpart.

    Raises:
        UserError: the checkpoint has not the whole encoder, or a larger one, or something
            in it has another shape; nothing is loaded then.
    """
    checkpoint = read_checkpoint(path, flag)
    mapping = list(mapping)
    names = {name for entry in mapping for name in entry.names}
    beyond = [name for name in checkpoint.part(f"{ENCODER_SCOPE}/") if name not in names]
    if beyond:
        raise UserError(
            f"{flag}: the encoder of {path} is larger than the flags ask for. Leave out "
            "--model_size, --model_hparam_overrides and --embedding_size to take those of the "
            f"checkpoint. {len(beyond)} variables are only in the checkpoint:\n  "
            + "\n  ".join(beyond)
        )
    needed = [name for entry in required for name in entry.names]
    report = assign_arrays(checkpoint.weights, mapping, f"{path} ({flag})", needed)
    say(f"Loaded from {path}, variables:")
    for line in (*report.lines(), *(f"no counterpart: {note}" for note in checkpoint.notes)):
        say(f"  {line}")
    return report
