"""Models and outputs that the tests of formats share."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from electra_tf.config.saved_config import SavedConfig
from electra_tf.interop import native_family
from electra_tf.interop.formats import FORMATS, make_format
from electra_tf.interop.model_checkpoint import (
    CheckpointFormat,
    ModelCheckpoint,
    TaskDescription,
    with_hyperparameters,
)
from electra_tf.interop.native_family import RebuiltModel
from electra_tf.interop.native_models import PRETRAINING
from electra_tf.interop.variable_names import variable_arrays
from finetune.data.features import sequence_names
from finetune.model_family import FINETUNING

HUGGINGFACE_DATA = pathlib.Path(__file__).parents[2] / "data" / "huggingface"
TF1_DATA = pathlib.Path(__file__).parents[2] / "data" / "reference"

FAMILIES = (PRETRAINING, FINETUNING)


def format_of(name: str) -> CheckpointFormat:
    """Returns a format that can read and write models of this project of every family."""
    return make_format(name, FAMILIES)


def own_hyperparameters(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    """Returns the hyperparameters of this project that describe a checkpoint."""
    return dict(with_hyperparameters(checkpoint, FAMILIES).description.hyperparameters)


def load_model(checkpoint: ModelCheckpoint) -> RebuiltModel:
    """Returns our model of a checkpoint, with its weights."""
    return native_family.load_model(checkpoint, FAMILIES)


def read(path: pathlib.Path | str, format_name: str) -> ModelCheckpoint:
    """Returns the checkpoint at a path, whose format must be recognized as the named one."""
    recognized = [each.name for each in FORMATS if each().recognizes(str(path))]
    assert recognized[0] == format_name
    return format_of(format_name).read(str(path))


def assert_same_arrays(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    """Raises unless both hold the same bytes under the same names."""
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype, name
        assert value.shape == theirs[name].shape, name
        assert value.tobytes() == theirs[name].tobytes(), name


def outputs(
    checkpoint: ModelCheckpoint, inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns what our model of a checkpoint computes on a batch.

    Args:
        checkpoint: of any format.
        inputs: int [batch, seq] by transformers' names.

    Returns:
        `sequence`, and of the heads that there are `discriminator`, `generator` and, by the
        names of tasks, logits of every token (tagging, qa) or of [CLS].
    """
    own = load_model(checkpoint)
    ids, mask, segments = (
        inputs[name].astype(np.int32)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    model = own.model
    sequence = model.electra(ids, mask, segments).sequence_output
    values = {"sequence": sequence}
    if checkpoint.has_discriminator:
        values["discriminator"] = model.discriminator_predictions(sequence)
    if checkpoint.has_masked_lm:
        hidden = model.generator(ids, mask, segments).sequence_output
        table = model.generator.embeddings.word_embeddings
        values["generator"] = model.generator_predictions(hidden, table)
    for task in checkpoint.description.tasks:
        values[task.name] = _head_outputs(own, task, sequence)
    return {name: np.asarray(value) for name, value in values.items()}


def choice_logits(checkpoint: ModelCheckpoint, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Returns what the only head of a checkpoint, of multiple choice, computes on a batch.

    Args:
        checkpoint: of any format.
        inputs: int [batch, choices, seq] by transformers' names.

    Returns:
        [batch, choices].
    """
    own = load_model(checkpoint)
    (task,) = checkpoint.description.tasks
    ids, mask, segments = (
        inputs[name].astype(np.int32)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    count = ids.shape[1]
    own.model.head(task.name).num_sequences = count
    features = {f"{task.name}_label_ids": np.zeros(len(ids), np.int32)}
    for index in range(count):
        names = sequence_names(index)
        features |= dict(
            zip(names, (ids[:, index], mask[:, index], segments[:, index]), strict=True)
        )
    return np.asarray(own.model.predict_task(features, task.name).outputs["logits"])


def _head_outputs(own: RebuiltModel, task: TaskDescription, sequence) -> np.ndarray:
    head = own.model.head(task.name)
    if task.kind == "qa":
        logits = [np.asarray(layer(sequence))[..., 0] for layer in (head.start, head.end)]
        return np.stack(logits, axis=-1)
    if task.kind == "tagging":
        return np.asarray(head.dense(sequence))
    return np.asarray(head.dense(sequence[:, 0]))


def tiny_pretraining_checkpoint(
    make_config: Callable, *, slots: bool = False, **overrides
) -> ModelCheckpoint:
    """Returns a checkpoint of random weights, all different, with moments if asked for."""
    config = make_config(**overrides)
    own = PRETRAINING.build(SavedConfig(dataclasses.asdict(config), {}))
    random = np.random.default_rng(5)
    arrays = {
        name: random.normal(scale=0.3, size=value.shape).astype(np.float32)
        for name, value in variable_arrays(own.mapping).items()
    }
    if slots:
        moments = {
            f"{name}/{slot}": random.random(value.shape).astype(np.float32)
            for name, value in arrays.items()
            for slot in ("adam_m", "adam_v")
        }
        arrays |= moments
    vocabulary = pathlib.Path(config.vocab_file).read_bytes()
    return ModelCheckpoint(
        description=dataclasses.replace(own.description, vocabulary=vocabulary),
        arrays=arrays,
        step=7 if slots else None,
    )
