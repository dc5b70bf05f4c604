"""What a checkpoint says of a model, for flags that are not given; imports no TensorFlow."""

import os
from collections.abc import Mapping
from typing import Any

from electra_tf.config.encoder import encoder_settings
from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop import kerashub_format
from electra_tf.interop.formats import FORMATS, find_format
from electra_tf.interop.huggingface import metadata
from electra_tf.interop.huggingface.format import DISCRIMINATOR_FOLDER
from electra_tf.interop.huggingface.metadata import is_huggingface_folder
from electra_tf.interop.native_format import VOCAB_FILE
from electra_tf.util.errors import UserError

FLAG = "--init_checkpoint"


def initial_settings(given: Mapping[str, Any], model_dir: str) -> dict[str, Any]:
    """Returns what a pre-training run takes from `init_checkpoint`, and its path.

    A run that has begun describes itself: what it started from may be gone.

    Args:
        given: hyperparameters, which win over the checkpoint's; `init_checkpoint` and
            `data_dir` are among them.
        model_dir: of the run.

    Raises:
        UserError: there is no such checkpoint.
    """
    path = resolve_checkpoint(given["init_checkpoint"], given["data_dir"])
    has_begun = FORMATS["electra_tf"].recognizes(model_dir)
    if not has_begun:
        find_format(path, FLAG)
    saved = saved_hyperparameters(
        model_dir if has_begun else path, needs_vocabulary="vocab_file" not in given
    )
    settings = {"init_checkpoint": path}
    if "model_size" in saved:
        settings |= encoder_settings(given, saved)
    rest = {"vocab_size", "do_lower_case", "strip_accents", "vocab_file"} - given.keys()
    return settings | {name: saved[name] for name in rest if name in saved}


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
        description = metadata.read_huggingface_description(folder).description
        values = description.model_settings()
        if needs_vocabulary and description.vocabulary and not os.path.exists(vocabulary):
            raise UserError(
                f"The vocabulary of {folder} is inside of its tokenizer.json: convert the "
                "model with convert_checkpoint.py --to_format=electra_tf, or give a file of "
                "one token a line with --vocab_file"
            )
    elif kerashub_format.is_kerashub_folder(folder):
        values = kerashub_format.read_kerashub_description(folder).model_settings()
        vocabulary = os.path.join(folder, kerashub_format.VOCAB_FILE)
    else:
        description = load_saved_config(folder)
        values = dict(description.hyperparameters) if description else {}
        values.pop("vocab_file", None)
    if os.path.exists(vocabulary):
        values["vocab_file"] = vocabulary
    return values
