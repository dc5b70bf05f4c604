"""Base class of the families of this project's models: reading, writing, rebuilding."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.saved_config import SavedConfig
from electra_tf.interop.model_checkpoint import (
    TASK_SCOPE,
    VOCAB_FILE,
    ModelCheckpoint,
    ModelDescription,
    ModelFamily,
    containing_folder,
    find_family,
    with_hyperparameters,
)
from electra_tf.interop.variable_names import (
    NamedVariable,
    assign_arrays,
    slot_variables,
    variable_arrays,
)
from electra_tf.training.checkpoint_files import newest_whole, require_whole
from electra_tf.training.checkpoints import CheckpointDirectory
from electra_tf.training.learning_rate import WarmupPolynomialDecay
from electra_tf.training.optimizer import ElectraAdam
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically

_OPTIMIZER_KEYS = "optimizer/"


class RebuiltModel(NamedTuple):
    """A model, its variables by the authors' names, and its description without files."""

    model: keras.Model
    mapping: list[NamedVariable]
    description: ModelDescription


class NativeFamily(ModelFamily):
    """A family of Keras models, saved in a `CheckpointDirectory`.

    Attributes:
        is_partial: whether the models omit a part of the checkpoints, and the optimizer's
            moments.
    """

    is_partial = False

    @abc.abstractmethod
    def build(self, saved: SavedConfig) -> RebuiltModel:
        """Builds the model described by `config.json`, with random weights.

        Reads no data. Of `saved.variables`, only those of fine-tuned heads are used.
        """

    def load(self, checkpoint: ModelCheckpoint) -> RebuiltModel:
        """Builds the model described by `description.hyperparameters`, with its weights.

        Raises:
            UserError: a weight is missing, or its shape differs from the description.
        """
        # The variables of heads have the authors' names.
        heads = {k: list(v.shape) for k, v in checkpoint.part(TASK_SCOPE).items()}
        hyperparameters = dict(checkpoint.description.hyperparameters)
        rebuilt = self.build(SavedConfig(hyperparameters, heads))
        names = [name for entry in rebuilt.mapping for name in entry.names]
        assign_arrays(checkpoint.arrays, rebuilt.mapping, "to convert", names)
        return rebuilt

    def read(self, path: str, saved: SavedConfig) -> ModelCheckpoint:
        """Returns a checkpoint, with moments if it has them."""
        folder = containing_folder(path)
        prefix = path.removesuffix(".index")
        if os.path.isdir(path):
            prefix = newest_whole(path)
            if prefix is None:
                raise UserError(f"The folder {path} contains no checkpoint")
        else:
            require_whole(prefix)
        rebuilt = self.build(saved)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        mapping, optimizer = rebuilt.mapping, None
        if not self.is_partial and _has_optimizer(prefix):
            optimizer, slots = _optimizer_of(rebuilt)
            mapping = mapping + slots
        CheckpointDirectory(
            folder, rebuilt.model, step, optimizer, partial=self.is_partial
        ).restore(prefix)
        vocabulary = pathlib.Path(folder, VOCAB_FILE)
        return ModelCheckpoint(
            description=dataclasses.replace(
                rebuilt.description,
                vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
            ),
            arrays=variable_arrays(mapping),
            step=int(step.numpy()),
            path=prefix,
            unread=tuple(set(saved.variables) - {v.path for v in rebuilt.model.variables}),
        )

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a checkpoint, with moments if all are known."""
        rebuilt = self.load(checkpoint)
        step = tf.Variable(checkpoint.step or 0, dtype=tf.int64, trainable=False)
        left = set(checkpoint.arrays) - {n for entry in rebuilt.mapping for n in entry.names}
        optimizer, notes = None, []
        if checkpoint.slots:
            optimizer, slots = _optimizer_of(rebuilt)
            taken = assign_arrays(checkpoint.slots, slots, "to convert", ())
            left -= set(taken.matched)
            optimizer.iterations.assign(checkpoint.step or 0)
            if taken.missing:
                notes.append(
                    f"the optimizer's moments: {len(taken.missing)} of them are missing"
                )
                optimizer = None
        notes += sorted(left)
        vocabulary = os.path.join(directory, VOCAB_FILE)
        write_atomically(vocabulary, checkpoint.description.vocabulary)
        checkpoints = CheckpointDirectory(directory, rebuilt.model, step, optimizer)
        checkpoints.write_description(rebuilt.description.hyperparameters, vocabulary)
        checkpoints.save()
        return notes


def _has_optimizer(prefix: str) -> bool:
    saved = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    return any(name.startswith(_OPTIMIZER_KEYS) for name in saved)


def _optimizer_of(rebuilt: RebuiltModel) -> tuple[ElectraAdam, list[NamedVariable]]:
    """Returns an optimizer as in training, and the mapping of its moments."""
    variables = rebuilt.model.trainable_variables
    optimizer = ElectraAdam(WarmupPolynomialDecay(0.0, 1))
    optimizer.build(variables)
    return optimizer, slot_variables(rebuilt.mapping, variables, optimizer)


def load_model(checkpoint: ModelCheckpoint, families: Sequence[NativeFamily]) -> RebuiltModel:
    """Returns the model of a checkpoint of any format, with its weights.

    Raises:
        UserError: a weight is missing, its shape differs from the description, or no family
            matches.
    """
    checkpoint = with_hyperparameters(checkpoint, families)
    return find_family(checkpoint.description.hyperparameters, families).load(checkpoint)
