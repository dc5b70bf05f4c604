"""The formats by name, and which of them a path is of; imports no TensorFlow."""

import os

from electra_tf.interop.huggingface.format import HuggingFaceFormat
from electra_tf.interop.kerashub_format import KerasHubFormat
from electra_tf.interop.model_checkpoint import CheckpointFormat, ModelCheckpoint
from electra_tf.interop.native_format import NativeFormat
from electra_tf.interop.tf1_format import Tf1Format
from electra_tf.util.errors import UserError

# In the order in which they are tried: the authors' files say least of themselves.
FORMATS: dict[str, CheckpointFormat] = {
    one.name: one
    for one in (NativeFormat(), HuggingFaceFormat(), KerasHubFormat(), Tf1Format())
}
FORMAT_NAMES = tuple(FORMATS)


def find_format(path: str, flag: str) -> CheckpointFormat:
    """Returns the format of a file or folder.

    Args:
        path: a folder, or the prefix of a checkpoint's files.
        flag: that errors name.

    Raises:
        UserError: there is nothing, or nothing that is known.
    """
    for one in FORMATS.values():
        if one.recognizes(path):
            return one
    if os.path.isdir(path):
        raise UserError(
            f"{flag}: the folder {path} holds no checkpoint: no checkpoint of this project or "
            "of the authors' code, no Hugging Face model of type electra, no KerasHub preset "
            "of ElectraBackbone"
        )
    raise UserError(
        f"{flag}: there is no checkpoint {path} (no {path.removesuffix('.index')}.index), and "
        "no such folder"
    )


def read_checkpoint(path: str, flag: str, format_name: str | None = None) -> ModelCheckpoint:
    """Reads a checkpoint of any format, found by its files where no name is given."""
    one = FORMATS[format_name] if format_name else find_format(path, flag)
    return one.read(path)
