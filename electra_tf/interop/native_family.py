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
    ModelCheckpoint,
    ModelDescription,
    ModelFamily,
    containing_folder,
    find_family,
    with_hyperparameters,
)
from electra_tf.interop.moments import optimizer_for, saved_moments, slot_variables
from electra_tf.interop.variable_names import (
    NamedVariable,
    assign_arrays,
    names_in,
    variable_arrays,
)
from electra_tf.model.layers import zeros_initially
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.checkpoints.checkpoint_files import newest_whole, require_whole
from electra_tf.training.optimizer import inner_optimizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically


class RebuiltModel(NamedTuple):
    """A model, its variables by the authors' names, and a description without vocabulary."""

    model: keras.Model
    mapping: list[NamedVariable]
    description: ModelDescription


class NativeFamily(ModelFamily):
    """A family of Keras models, saved in a `CheckpointDirectory`.

    Attributes:
        is_partial: whether the models have only a part of a checkpoint's weights, and no
            moments.
    """

    is_partial = False

    @abc.abstractmethod
    def build(self, saved: SavedConfig, vocabulary: bytes | None = None) -> RebuiltModel:
        """Builds the model described by `config.json`, whose weights callers set.

        Reads no data. Of `saved.variables`, only those of fine-tuned heads are used.

        Args:
            saved: the description.
            vocabulary: bytes of the model's `vocab.txt`; None if only its weights are used.

        Raises:
            UserError: the model masks tokens, and its vocabulary cannot be used.
        """

    def warn_of_untrained(self, model: keras.Model, step: int, prefix: str) -> None:
        """Warns if weights of a checkpoint are still random.

        Args:
            model: the restored model.
            step: step of the checkpoint.
            prefix: path of the checkpoint.
        """

    def load(self, checkpoint: ModelCheckpoint) -> RebuiltModel:
        """Builds the model described by `description.hyperparameters`, with its weights.

        Raises:
            UserError: a weight is missing, its shape differs from the description, or the
                vocabulary cannot be used.
        """
        # The variables of heads have the authors' names.
        heads = {k: list(v.shape) for k, v in checkpoint.part(TASK_SCOPE).items()}
        hyperparameters = dict(checkpoint.description.hyperparameters)
        vocabulary = checkpoint.description.vocabulary
        with zeros_initially():
            rebuilt = self.build(SavedConfig(hyperparameters, heads), vocabulary)
        names = names_in(rebuilt.mapping)
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
        with zeros_initially():
            rebuilt = self.build(saved)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        CheckpointDirectory(folder, rebuilt.model, step, partial=self.is_partial).restore(
            prefix
        )
        self.warn_of_untrained(rebuilt.model, int(step.numpy()), prefix)
        arrays = variable_arrays(rebuilt.mapping)
        if not self.is_partial:
            arrays |= saved_moments(prefix, rebuilt.mapping)
        vocabulary = pathlib.Path(folder, VOCAB_FILE)
        return ModelCheckpoint(
            description=dataclasses.replace(
                rebuilt.description,
                vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
            ),
            arrays=arrays,
            step=int(step.numpy()),
            path=prefix,
            unread=tuple(set(saved.variables) - {v.path for v in rebuilt.model.variables}),
        )

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a checkpoint, with moments if all are known."""
        rebuilt = self.load(checkpoint)
        step = tf.Variable(checkpoint.step or 0, dtype=tf.int64, trainable=False)
        left = set(checkpoint.arrays) - set(names_in(rebuilt.mapping))
        optimizer, notes = None, []
        if checkpoint.slots:
            optimizer = optimizer_for(
                rebuilt.model.trainable_variables,
                checkpoint.slots,
                rebuilt.description.hyperparameters.get("precision", "float32"),
            )
            slots = slot_variables(rebuilt.mapping, optimizer)
            taken = assign_arrays(checkpoint.slots, slots, "to convert", ())
            left -= set(taken.matched)
            for each in (optimizer, inner_optimizer(optimizer)):
                each.iterations.assign(checkpoint.step or 0)
            if taken.missing:
                notes.append(f"{len(taken.missing)} optimizer moments are missing")
                optimizer = None
        notes += sorted(left)
        vocabulary = os.path.join(directory, VOCAB_FILE)
        write_atomically(vocabulary, checkpoint.description.vocabulary)
        checkpoints = CheckpointDirectory(directory, rebuilt.model, step, optimizer)
        checkpoints.write_description(rebuilt.description.hyperparameters, vocabulary)
        checkpoints.save()
        return notes


def load_model(checkpoint: ModelCheckpoint, families: Sequence[NativeFamily]) -> RebuiltModel:
    """Returns the model of a checkpoint of any format, with its weights.

    It computes in float32, whatever the `precision` of its run: weights are float32 in every
    format. For the precision of a run, and its other settings, use
    `electra_tf.model_builder.load_model`. Without a vocabulary, it can neither mask nor score.

    Raises:
        UserError: a weight is missing, its shape differs from the description, or no family
            matches.
    """
    checkpoint = with_hyperparameters(checkpoint, families)
    is_pretrained = checkpoint.has_discriminator or checkpoint.has_masked_lm
    if checkpoint.description.vocabulary is None and is_pretrained:
        warn_once(
            "The checkpoint has no vocabulary, so the ids of [CLS], [SEP] and [MASK] are "
            "unknown: its model encodes, but can neither mask nor score texts"
        )
    return find_family(checkpoint.description.hyperparameters, families).load(checkpoint)
