"""Recognizes checkpoints of the authors' code in a model folder, by file names alone.

With the authors' code, putting the files of a released checkpoint into DATA_DIR/models/NAME
continues its training.
"""

import os
import re

from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_names, checkpoint_steps
from electra_tf.util.errors import UserError

_OURS = re.compile(r"ckpt-\d+")


def authors_checkpoint(folder: str) -> str | None:
    """Returns the name of an authors' checkpoint in a folder, complete or not, or None.

    A name is the first part of its files' names, such as `electra_small` or
    `model.ckpt-1000000`. This project's checkpoints are named `ckpt-STEP`.
    """
    names = [name for name in checkpoint_names(folder) if not _OURS.fullmatch(name)]
    return max(names, default=None)


def has_only_authors_checkpoint(folder: str) -> bool:
    """Whether a folder has a checkpoint of the authors' code, and none of this project."""
    return authors_checkpoint(folder) is not None and not has_own_checkpoint(folder)


def has_own_checkpoint(folder: str) -> bool:
    """Whether a folder has a checkpoint of this project, complete or not."""
    return bool(checkpoint_steps(folder))


def refuse_authors_checkpoint(folder: str, vocab_file: str | None = None) -> None:
    """Raises UserError with the command that converts the authors' checkpoint, if there is one.

    Args:
        folder: a model folder.
        vocab_file: vocabulary of the model; None if it is in the folder.
    """
    if not has_only_authors_checkpoint(folder):
        return
    folder = folder.rstrip("/")
    beside = os.path.join(folder, VOCAB_FILE)
    vocabulary = "" if os.path.exists(beside) else f" --vocab_file {vocab_file or 'VOCAB'}"
    raise UserError(
        f"{folder} has a checkpoint of the authors' code, {authors_checkpoint(folder)}, and "
        "none of this project. Convert it, and pass the new folder:\n"
        f"  python convert_checkpoint.py --from {folder} --to_format electra_tf --output "
        f"{folder}_converted{vocabulary}"
    )
