"""Checkpoints of the authors' TensorFlow 1 code.

Such a checkpoint does not describe its model. Sizes are derived from the shapes of its
variables; the number of heads is certain for published sizes only, and elsewhere assumed by the
authors' rule of 64 units per head. Whether text is lowercased is not recorded. `write` adds
`electra_tf.json` with this project's hyperparameters, which provides the rest.
"""

import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.config.encoder import (
    HEAD_SIZE,
    INTERMEDIATE_RATIO,
    MODEL_SIZES,
    UNRECORDED_HEADS,
    EncoderConfig,
)
from electra_tf.config.saved_config import (
    CONFIG_FILE,
    CONFIG_VERSION,
    VERSION,
    checked_hyperparameters,
)
from electra_tf.interop.huggingface.format import PAIR
from electra_tf.interop.model_checkpoint import (
    GENERATOR_SCOPE,
    TASK_SCOPE,
    TOWER_SCOPE,
    CheckpointFormat,
    ModelCheckpoint,
    ModelDescription,
    TaskDescription,
    containing_folder,
    saved_task,
    vocabulary_setting,
    with_hyperparameters,
)
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import (
    newest_whole,
    read_shapes,
    read_tensors,
)
from electra_tf.training.checkpoints.checkpoint_writing import record_newest, whole_checkpoint
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import read_json, to_json, write_atomically
from electra_tf.util.tensorflow_import import import_tensorflow

DESCRIPTION_FILE = "electra_tf.json"
CHECKPOINT_NAME = "model.ckpt"
GLOBAL_STEP = "global_step"
# Entry of checkpoints of TensorFlow 2, which describes their objects.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_INDEX = ".index"


class Tf1Format(CheckpointFormat):
    """`<prefix>.index` and `<prefix>.data-…` with the authors' names."""

    name = "tf1"
    shadowing = (CONFIG_FILE, *PAIR)

    def recognizes(self, path: str) -> bool:
        """Returns whether it is a prefix, an .index file or a folder of a TF checkpoint."""
        if os.path.isdir(path):
            return any(name.endswith(_INDEX) for name in os.listdir(path))
        return os.path.isfile(path.removesuffix(_INDEX) + _INDEX)

    def read(self, path: str | os.PathLike[str]) -> ModelCheckpoint:
        """Returns all arrays of a checkpoint, including the optimizer's moments.

        Raises:
            UserError: there is no checkpoint, or it has no ELECTRA encoder.
        """
        path = os.fspath(path)
        prefix = _prefix_of(path)
        arrays = read_tf1_arrays(prefix)
        step = arrays.pop(GLOBAL_STEP, None)
        doubles = [n for n, v in arrays.items() if getattr(v, "dtype", None) == np.float64]
        arrays |= {name: arrays[name].astype(np.float32) for name in doubles}
        rounded = f"the precision of float64 variables ({len(doubles)}): rounded to float32"
        folder = containing_folder(path)
        saved = _saved_hyperparameters(folder)
        overrides = saved.get("model_hparam_overrides") or {}
        vocabulary = pathlib.Path(folder, VOCAB_FILE)
        shapes = {name: np.shape(value) for name, value in arrays.items()}
        generator = None
        for scope in (GENERATOR_SCOPE, TOWER_SCOPE):
            if any(name.startswith(f"{scope}encoder/") for name in arrays):
                # As in the authors' code, a generator's heads depend on its own width.
                heads = {"num_attention_heads": None}
                generator = _encoder_config(
                    shapes, scope.removesuffix("/"), {**overrides, **heads}, path
                )
        encoder = _encoder_config(shapes, "electra", overrides, path)
        description = ModelDescription(
            encoder=encoder,
            generator=generator,
            do_lower_case=saved.get("do_lower_case", True),
            strip_accents=saved.get("strip_accents", True),
            vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
            tasks=self._tasks(arrays, saved),
            hyperparameters=saved,
            heads_recorded=_records_heads(encoder, saved),
            tokenizer_recorded="do_lower_case" in saved,
        )
        return ModelCheckpoint(
            description=description,
            arrays=arrays,
            step=None if step is None else int(step),
            notes=(rounded,) if doubles else (),
            path=prefix,
        )

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns sizes derived from shapes; imports TensorFlow to read the index."""
        if not self.recognizes(path):
            return None
        import_tensorflow()
        shapes = read_shapes(_prefix_of(path))
        folder = containing_folder(path)
        vocabulary = vocabulary_setting(os.path.join(folder, VOCAB_FILE))
        saved = _saved_hyperparameters(folder)
        saved.pop("vocab_file", None)
        overrides = saved.get("model_hparam_overrides") or {}
        encoder = _encoder_config(shapes, "electra", overrides, path)
        values = ModelDescription(encoder=encoder, tokenizer_recorded=False).recorded_settings()
        if not _records_heads(encoder, saved):
            values["model_hparam_overrides"].pop("num_attention_heads", None)
            values[UNRECORDED_HEADS] = path
        return {**values, **saved, **vocabulary}

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a checkpoint, `vocab.txt` and `electra_tf.json`, which records the rest.

        Returns:
            Notes on what the authors' code, which ignores `electra_tf.json`, computes
            differently.
        """
        import tensorflow as tf

        description = with_hyperparameters(checkpoint, self.families).description
        os.makedirs(directory, exist_ok=True)
        values: dict[str, Any] = dict(sorted(checkpoint.arrays.items()))
        if checkpoint.step is not None:
            values[GLOBAL_STEP] = np.int64(checkpoint.step)
        name = f"{CHECKPOINT_NAME}-{checkpoint.step or 0}"
        try:
            with whole_checkpoint(os.path.join(directory, name)) as temporary:
                tf.raw_ops.SaveV2(
                    prefix=temporary,
                    tensor_names=list(values),
                    shape_and_slices=[""] * len(values),
                    tensors=list(values.values()),
                )
        except tf.errors.OpError as error:
            raise UserError(f"{directory} cannot be written: {reason_of(error)}") from error
        record_newest(directory, name)
        write_atomically(os.path.join(directory, VOCAB_FILE), description.vocabulary)
        content = to_json({VERSION: CONFIG_VERSION, **description.hyperparameters})
        write_atomically(os.path.join(directory, DESCRIPTION_FILE), content)
        return _notes(description)

    def _tasks(
        self, arrays: Mapping[str, np.ndarray], saved: Mapping[str, Any]
    ) -> tuple[TaskDescription, ...]:
        names = sorted({name.split("/")[1] for name in arrays if name.startswith(TASK_SCOPE)})
        described = [each.describe_task for each in self.families if each.describes(saved)]
        describe = described[0] if described else saved_task
        return tuple(describe(name, saved) for name in names)


def _saved_hyperparameters(folder: str) -> dict[str, Any]:
    """Returns the contents of a folder's `electra_tf.json`; empty without one."""
    path = os.path.join(folder, DESCRIPTION_FILE)
    return checked_hyperparameters(read_json(path), path)


def _notes(description: ModelDescription) -> list[str]:
    """Returns notes on settings that the authors' code does not have."""
    encoder, notes = description.encoder, []
    if encoder.layer_norm_epsilon != EncoderConfig.layer_norm_epsilon:
        notes.append(
            f"layer_norm_epsilon {encoder.layer_norm_epsilon}: the authors' code always has "
            f"{EncoderConfig.layer_norm_epsilon}, so its outputs differ"
        )
    if encoder.hidden_act == "gelu_tanh":
        notes.append(
            "hidden_act gelu_tanh: the authors' code computes the exact GELU, so its outputs "
            "differ slightly"
        )
    elif encoder.hidden_act != EncoderConfig.hidden_act:
        notes.append(
            f"hidden_act {encoder.hidden_act}: the authors' code computes GELU unless its "
            "model_hparam_overrides name it"
        )
    if description.do_lower_case and not description.strip_accents:
        notes.append(
            "strip_accents false: the authors' code strips accents from all lowercased text, "
            "so texts with accents get different tokens"
        )
    return notes


def _records_heads(encoder: EncoderConfig, saved: Mapping[str, Any]) -> bool:
    """Whether `electra_tf.json` or a published size determines the number of heads."""
    published = (
        (encoder.hidden_size, encoder.num_hidden_layers) in MODEL_SIZES.values()
        and encoder.intermediate_size == INTERMEDIATE_RATIO * encoder.hidden_size
    )
    return bool(saved) or published


def _encoder_config(
    shapes: Mapping[str, Sequence[int]], scope: str, overrides: Mapping[str, Any], path: str
) -> EncoderConfig:
    def shape(name: str, owner: str = scope) -> tuple[int, ...]:
        if f"{owner}/{name}" not in shapes:
            raise UserError(
                f"{path} is not a checkpoint of the authors' code: it has no {owner}/{name}"
                f"{_missing_config_hint(path) if OBJECT_GRAPH in shapes else ''}"
            )
        return tuple(shapes[f"{owner}/{name}"])

    # A generator with shared embeddings has none of its own.
    has_own = f"{scope}/embeddings/word_embeddings" in shapes
    embeddings = scope if has_own else "electra"
    vocab_size, embedding_size = shape("embeddings/word_embeddings", embeddings)
    hidden, intermediate = shape("encoder/layer_0/intermediate/dense/kernel")
    layers = [re.match(rf"{scope}/encoder/layer_(\d+)/", name) for name in shapes]
    known = {
        name: overrides[name]
        for name in (
            "hidden_act",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
            "initializer_range",
            "layer_norm_epsilon",
        )
        if name in overrides
    }
    heads = overrides.get("num_attention_heads")
    if not heads:
        heads = max(1, hidden // HEAD_SIZE)
        heads = 1 if hidden % heads else heads
    sizes = {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden,
        "num_hidden_layers": 1 + max(int(match.group(1)) for match in layers if match),
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        "max_position_embeddings": shape("embeddings/position_embeddings", embeddings)[0],
        "type_vocab_size": shape("embeddings/token_type_embeddings", embeddings)[0],
    }
    try:
        return EncoderConfig(**sizes, **known)
    except UserError as error:
        described = os.path.join(containing_folder(path), DESCRIPTION_FILE)
        raise UserError(f"{described}: model_hparam_overrides: {error}") from error


def _missing_config_hint(path: str) -> str:
    """Returns a hint for a checkpoint of TensorFlow 2 without its `config.json`."""
    if os.path.exists(os.path.join(containing_folder(path), CONFIG_FILE)):
        return ""
    return (
        f". It is a checkpoint of TensorFlow 2; this project's model needs its {CONFIG_FILE} "
        "beside it: restore that file"
    )


def read_tf1_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns all arrays of a checkpoint of the authors' code, by name.

    Args:
        path: prefix of a checkpoint, its `.index` file, or a folder, whose newest whole
            checkpoint is read.

    Raises:
        UserError: there is no checkpoint at `path`, or it cannot be read.
    """
    return dict(read_tensors(_prefix_of(os.fspath(path))))


def _prefix_of(path: str) -> str:
    prefix = newest_whole(path, stem=None) if os.path.isdir(path) else path
    if prefix is None:
        raise UserError(f"The folder {path} contains no checkpoint")
    prefix = prefix.removesuffix(_INDEX)
    if not os.path.exists(prefix + _INDEX):
        raise UserError(f"No such TensorFlow checkpoint: {prefix} (no {prefix}.index)")
    return prefix
