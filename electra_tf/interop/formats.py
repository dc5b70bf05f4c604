"""The formats by name, and which of them a path is of; imports no TensorFlow."""

import os
from typing import Any

from electra_tf.description import load_description
from electra_tf.errors import UserError
from electra_tf.interop import kerashub_config
from electra_tf.interop.checkpoint import CheckpointFormat, ModelCheckpoint
from electra_tf.interop.huggingface import DISCRIMINATOR_FOLDER, HuggingFaceFormat
from electra_tf.interop.huggingface_config import (
    VOCAB_FILE,
    is_huggingface_folder,
    read_huggingface_description,
)
from electra_tf.interop.kerashub import KerasHubFormat
from electra_tf.interop.own_format import OwnFormat
from electra_tf.interop.tf1_format import Tf1Format

# In the order in which they are tried: the authors' files say least of themselves.
FORMATS: dict[str, CheckpointFormat] = {
    one.name: one for one in (OwnFormat(), HuggingFaceFormat(), KerasHubFormat(), Tf1Format())
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


def resolve_checkpoint(path: str, data_dir: str) -> str:
    """Returns `path`, or the folder of a model of that name in DATA_DIR/models."""
    named = os.path.join(data_dir, "models", path)
    there = os.path.exists(path) or os.path.exists(f"{path.removesuffix('.index')}.index")
    return named if not there and os.path.isdir(named) else path


def saved_hyperparameters(path: str, *, needs_vocabulary: bool = True) -> dict[str, Any]:
    """Returns what a checkpoint says of model and tokenizer, without reading its weights.

    Besides hyperparameters of this project these are `vocab_file`, where the vocabulary lies
    in a file of one token a line. The authors' checkpoints say nothing.

    Args:
        path: a folder, or the prefix of a checkpoint's files.
        needs_vocabulary: whether to insist on such a file where the model has a vocabulary.

    Raises:
        UserError: a description that cannot be read, or a vocabulary that lies in a file of
            another kind.
    """
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    pair = os.path.join(folder, DISCRIMINATOR_FOLDER)
    if not is_huggingface_folder(folder) and is_huggingface_folder(pair):
        folder = pair
    values: dict[str, Any] = {}
    vocabulary = os.path.join(folder, VOCAB_FILE)
    if is_huggingface_folder(folder):
        description = read_huggingface_description(folder).description
        values = description.model_settings()
        if needs_vocabulary and description.vocabulary and not os.path.exists(vocabulary):
            raise UserError(
                f"The vocabulary of {folder} is inside of its tokenizer.json: convert the "
                "model with convert_checkpoint.py --to_format=electra_tf, or give a file of "
                "one token a line with --vocab_file"
            )
    elif kerashub_config.is_kerashub_folder(folder):
        values = kerashub_config.read_kerashub_description(folder).model_settings()
        vocabulary = os.path.join(folder, kerashub_config.VOCAB_FILE)
    else:
        description = load_description(folder)
        values = dict(description.hyperparameters) if description else {}
        values.pop("vocab_file", None)
    if os.path.exists(vocabulary):
        values["vocab_file"] = vocabulary
    return values
