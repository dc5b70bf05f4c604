"""`config.json` beside a run's checkpoints: its hyperparameters and variable shapes.

No TensorFlow is imported here: flags are checked against it before anything slow happens.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.config.encoder import MODEL_SIZES, encoder_shape
from electra_tf.config.hyperparameters import VALUE_KINDS, value_type
from electra_tf.config.pretraining_fields import PretrainingFields
from electra_tf.text.tokenizer_description import hash_vocabulary
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import loads_json
from electra_tf.util.path_checks import check_plain_name
from electra_tf.util.seals import without_seal

CONFIG_FILE = "config.json"
# 1 (or none): heads and intermediate size followed the model size, even if its width was
# overridden. 2: they follow the width.
CONFIG_VERSION = 2
VERSION = "version"
# Digests of the data that a run was trained on, beside its hyperparameters: of records by
# length, of tasks by "task/split".
DATA = "data"
# Name and data folder in the settings of pre-trained models of other formats. Their settings
# describe the model; those of its training, which other formats do not record, have defaults.
CONVERTED = {"model_name": "converted", "data_dir": "."}
# Types of fine-tuning hyperparameters, and of entries that are not hyperparameters.
_OTHER_TYPES: Mapping[str, type] = {
    DATA: dict,
    "labels": dict,
    "task_names": list,
    "tasks": dict,
    "trained_positions": int,
    VERSION: int,
    "warmup_proportion": float,
}
# Types of the entries of each task in `tasks` and `labels`.
_TASK_TYPES: Mapping[str, type] = {"labels": list, "tasks": dict}


class SavedConfig(NamedTuple):
    """`hyperparameters` by name, and the shape of each variable by path."""

    hyperparameters: dict[str, Any]
    variables: dict[str, list[int]]


def is_pretrained(saved: Mapping[str, Any]) -> bool:
    """Whether hyperparameters belong to a model of `run_pretraining.py`."""
    return "electra_objective" in saved


def is_finetuned(saved: Mapping[str, Any]) -> bool:
    """Whether hyperparameters belong to a model of `run_finetuning.py`, or to an encoder."""
    return "task_names" in saved


def is_converted(saved: Mapping[str, Any]) -> bool:
    """Whether a pre-trained model was converted, and has not been trained here since.

    Args:
        saved: its hyperparameters.
    """
    return DATA not in saved and all(saved.get(n) == value for n, value in CONVERTED.items())


def load_saved_config(directory: str | os.PathLike) -> SavedConfig | None:
    """Reads the `config.json` of a folder; returns None if there is none.

    Warns if the vocabulary beside it is not the one that it was written with.

    Raises:
        UserError: the file does not describe a run, is not what was written, or is of a newer
            version.
    """
    path = os.path.join(directory, CONFIG_FILE)
    try:
        content = loads_json(pathlib.Path(path).read_text(encoding="utf-8"))
        content = without_seal(content, path)
        if "hyperparameters" not in content:
            raise UserError(
                f"{path} does not describe a run of this project. Convert a model of another "
                "format first, with convert_checkpoint.py --to_format electra_tf"
            )
        hyperparameters = {**content["hyperparameters"], VERSION: content.get(VERSION)}
        saved = SavedConfig(
            checked_hyperparameters(hyperparameters, path), dict(content["variables"])
        )
        recorded = content.get("tokenizer", {}).get("vocab_sha256")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} does not describe a run: {error!r}") from error
    vocab_file = os.path.join(directory, VOCAB_FILE)
    actual = hash_vocabulary(vocab_file)
    if recorded and actual and recorded != actual:
        warn_once(
            f"{vocab_file} is not the vocabulary that {path} was written with: tokens that "
            "have moved to other lines get the embeddings of other tokens. Restore the file"
        )
    return saved


def checked_hyperparameters(saved: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Checks saved hyperparameters, and returns what `upgrade_hyperparameters` makes of them.

    Raises:
        UserError: a value has an unexpected type, the name of a task leads to another folder,
            or the version is newer than this program.
    """
    _check_types(saved, path)
    for name in saved.get("task_names") or ():
        check_plain_name(name, "task", path)
    return upgrade_hyperparameters(saved, path)


def _check_types(hyperparameters: Mapping[str, Any], path: str) -> None:
    """Raises UserError for a value of an unexpected type."""
    fields = {field.name: value_type(field) for field in dataclasses.fields(PretrainingFields)}
    for name, wanted in {**fields, **_OTHER_TYPES}.items():
        value = hyperparameters.get(name)
        is_number = wanted is float and type(value) is int
        if value is not None and type(value) is not wanted and not is_number:
            raise UserError(f"{path}: {name} must be {VALUE_KINDS[wanted]}, not {value!r:.80}")
    for name, wanted in _TASK_TYPES.items():
        for task, value in (hyperparameters.get(name) or {}).items():
            if type(value) is not wanted:
                raise UserError(
                    f"{path}: {name} of {task!r:.40} must be {VALUE_KINDS[wanted]}, not "
                    f"{value!r:.80}"
                )
    size = hyperparameters.get("model_size")
    if size is not None and size not in MODEL_SIZES:
        raise UserError(
            f"{path}: model_size must be one of {', '.join(MODEL_SIZES)}, not {size!r:.80}"
        )


def upgrade_hyperparameters(saved: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Converts saved hyperparameters to the current version; drops `version`.

    Args:
        saved: hyperparameters, and the `version` of the program that wrote them.
        path: their file, for errors.

    Raises:
        UserError: the version is newer than this program.
    """
    values = dict(saved)
    version = values.pop(VERSION, None) or 1
    if version > CONFIG_VERSION:
        raise UserError(
            f"{path} was written by a newer version of this program (format {version}; this "
            f"one reads up to {CONFIG_VERSION})"
        )
    overrides = values.get("model_hparam_overrides") or {}
    size = values.get("model_size")
    if version < CONFIG_VERSION and "hidden_size" in overrides and size in MODEL_SIZES:
        shape = encoder_shape(*MODEL_SIZES[size])
        names = ("num_attention_heads", "intermediate_size")
        kept = {name: shape[name] for name in names}
        values["model_hparam_overrides"] = {**kept, **overrides}
    return values
