"""The checkpoint formats: detecting the format of a path, and reading its settings.

Imports no TensorFlow: flags are filled in from checkpoints before anything slow happens.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop.huggingface.format import HuggingFaceFormat
from electra_tf.interop.kerashub_format import KerasHubFormat
from electra_tf.interop.model_checkpoint import (
    CheckpointFormat,
    ModelFamily,
    containing_folder,
    vocabulary_setting,
)
from electra_tf.interop.native_format import NativeFormat
from electra_tf.interop.tf1_format import Tf1Format
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_of
from electra_tf.util.errors import UserError, nearest_name_hint

# In the order in which they are tried; the authors' files are the least specific, so they are
# last. A new format is a class and an entry here.
FORMATS: tuple[type[CheckpointFormat], ...] = (
    NativeFormat,
    HuggingFaceFormat,
    KerasHubFormat,
    Tf1Format,
)
_MODELS_SHOWN = 5
INIT_FLAG = "--init_checkpoint"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig:
    """Settings of a conversion.

    Attributes:
        source: folder or prefix of the checkpoint.
        source_format: its format; None detects it.
        target_format: format to write.
        output_dir: folder to write.
        vocab_file: vocabulary, for a source without one.
        num_attention_heads: attention heads of a checkpoint of the authors' code, which does
            not record them, if different from hidden_size / 64.
        do_lower_case, strip_accents: tokenizer settings, for a source that does not record
            them; if unset, those described beside the vocabulary, else true.
        overwrite: write into a non-empty folder.
    """

    source: str
    target_format: str
    output_dir: str
    source_format: str | None = None
    vocab_file: str | None = None
    num_attention_heads: int | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    overwrite: bool = False


def format_names() -> tuple[str, ...]:
    """Returns the names of all formats."""
    return tuple(each.name for each in FORMATS)


def make_format(name: str, families: Sequence[ModelFamily] = ()) -> CheckpointFormat:
    """Returns the format with the given name; see `CheckpointFormat` for `families`.

    Raises:
        UserError: there is no such format.
    """
    for format_class in FORMATS:
        if format_class.name == name:
            return format_class(families)
    raise UserError(
        f"{name!r} is not a checkpoint format: choose {', '.join(format_names())}."
        f"{nearest_name_hint(name, format_names())}"
    )


def named_format(
    name: str, path: str, flag: str, families: Sequence[ModelFamily]
) -> CheckpointFormat:
    """Returns the format that the user has named for a file or folder.

    Args:
        name: name of the format.
        path: a folder, or the prefix of a checkpoint's files.
        flag: flag that names the format, for errors.
        families: families of models; see `CheckpointFormat`.

    Raises:
        UserError: another format recognizes the path, and this one does not.
    """
    named = make_format(name, families)
    others = [each.name for each in FORMATS if each().recognizes(path)]
    if others and name not in others:
        raise UserError(
            f"{flag}={name}, but {path} is a checkpoint of the format {others[0]}: omit the "
            "flag"
        )
    return named


def find_format(
    path: str | os.PathLike[str], flag: str, families: Sequence[ModelFamily] = ()
) -> CheckpointFormat:
    """Returns the format of a file or folder.

    Args:
        path: a folder, or the prefix of a checkpoint's files.
        flag: flag to name in errors.
        families: families of models; see `CheckpointFormat`.

    Raises:
        UserError: there is no checkpoint, or its format is unknown.
    """
    path = os.fspath(path)
    for format_class in FORMATS:
        found = format_class(families)
        if found.recognizes(path):
            return found
    if os.path.isdir(path):
        raise UserError(
            f"{flag}: the folder {path} contains no checkpoint: no checkpoint of this project "
            "or of the authors' code, no Hugging Face model of type electra, no KerasHub "
            f"preset of ElectraBackbone{_models_inside(path)}"
        )
    raise UserError(
        f"{flag}: no such checkpoint: {path} (neither {path.removesuffix('.index')}.index nor "
        f"a folder){_checkpoint_hint(path)}"
    )


def _models_inside(folder: str) -> str:
    """Returns a hint to the models in subfolders, such as one for each task."""
    inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    models = [path for path in inside if any(each().recognizes(path) for each in FORMATS)]
    if not models:
        return ""
    more = ", …" if len(models) > _MODELS_SHOWN else ""
    return f". Its subfolders do: pass one of {', '.join(models[:_MODELS_SHOWN])}{more}"


def _checkpoint_hint(path: str) -> str:
    """Returns a hint to the checkpoint that a file belongs to."""
    folder, name = os.path.split(path)
    if not os.path.isfile(path):
        return ""
    prefix = checkpoint_of(name) or name.removesuffix(".meta")
    if os.path.isfile(os.path.join(folder, f"{prefix}.index")):
        return f": pass {os.path.join(folder, prefix)}"
    return f": pass the folder, {folder or os.curdir}"


def resolve_checkpoint(path: str, data_dir: str) -> str:
    """Returns `path`, or the folder of a model of that name in DATA_DIR/models."""
    named = os.path.join(data_dir, "models", path)
    exists = os.path.exists(path) or os.path.exists(f"{path.removesuffix('.index')}.index")
    return named if not exists and os.path.isdir(named) else path


def saved_hyperparameters(path: str, *, needs_vocabulary: bool = True) -> dict[str, Any]:
    """Returns the settings of a checkpoint of any format; see `CheckpointFormat.settings`.

    If no format recognizes the path, this is only the vocabulary in its folder, if any.

    Raises:
        UserError: the description cannot be read, or the vocabulary is not in a file with one
            token per line.
    """
    for format_class in FORMATS:
        values = format_class().settings(path, needs_vocabulary=needs_vocabulary)
        if values is not None:
            return values
    folder = containing_folder(path)
    load_saved_config(folder)  # raises if config.json does not describe a run
    return vocabulary_setting(os.path.join(folder, VOCAB_FILE))
