"""This project's checkpoints: of pre-training, of fine-tuning, or of an encoder alone."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from electra_tf.config.encoder import encoder_config
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.config.saved_config import CONFIG_FILE, SavedConfig, load_saved_config
from electra_tf.interop.model_checkpoint import (
    LABELS,
    TASK_SCOPE,
    VOCAB_FILE,
    ModelCheckpoint,
    ModelDescription,
    TaskDescription,
    containing_folder,
    vocabulary_setting,
)
from electra_tf.interop.native_models import own_hyperparameters
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, write_atomically

if TYPE_CHECKING:
    import keras

_INDEX = ".index"
_OPTIMIZER_KEYS = "optimizer/"


class RebuiltModel(NamedTuple):
    """A model, its variables by the authors' names, and its description without files."""

    model: "keras.Model"
    mapping: list[Any]
    description: ModelDescription


class NativeFormat:
    """`config.json`, `vocab.txt` and checkpoints named `ckpt-STEP`."""

    name = "electra_tf"

    def recognizes(self, path: str) -> bool:
        """Returns whether it is a folder of ours that has a checkpoint, or a prefix in one."""
        folder = containing_folder(path)
        if "hyperparameters" not in read_json(os.path.join(folder, CONFIG_FILE)):
            return False
        if os.path.isdir(path):
            return any(name.endswith(_INDEX) for name in os.listdir(path))
        return os.path.isfile(path.removesuffix(_INDEX) + _INDEX)

    def read(self, path: str) -> ModelCheckpoint:
        """Returns the newest checkpoint of a folder, or the one of a prefix.

        Raises:
            UserError: the checkpoint cannot be restored into the model of `config.json`.
        """
        import tensorflow as tf

        from electra_tf.interop.variable_names import slot_variables, variable_arrays
        from electra_tf.training.checkpoints import CheckpointDirectory

        folder = containing_folder(path)
        prefix = path.removesuffix(_INDEX)
        if os.path.isdir(path):
            prefix = tf.train.latest_checkpoint(path)
            if prefix is None:
                raise UserError(f"The folder {path} holds no checkpoint that is whole")
        own = build_model(load_saved_config(folder))
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        mapping, optimizer = own.mapping, None
        saved = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        if any(name.startswith(_OPTIMIZER_KEYS) for name in saved):
            variables = own.model.trainable_variables
            optimizer = _optimizer(variables)
            mapping = mapping + slot_variables(mapping, variables, optimizer)
        CheckpointDirectory(folder, own.model, step, optimizer).restore(prefix)
        vocabulary = pathlib.Path(folder, VOCAB_FILE)
        return ModelCheckpoint(
            description=dataclasses.replace(
                own.description,
                vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
            ),
            arrays=variable_arrays(mapping),
            step=int(step.numpy()),
        )

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a checkpoint that training goes on from, where the moments are known."""
        import tensorflow as tf

        from electra_tf.interop.variable_names import assign_arrays, slot_variables
        from electra_tf.training.checkpoints import CheckpointDirectory

        own = load_model(checkpoint)
        step = tf.Variable(checkpoint.step or 0, dtype=tf.int64, trainable=False)
        left = set(checkpoint.arrays) - {n for entry in own.mapping for n in entry.names}
        optimizer, notes = None, []
        if checkpoint.slots:
            variables = own.model.trainable_variables
            optimizer = _optimizer(variables)
            slots = slot_variables(own.mapping, variables, optimizer)
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
        checkpoints = CheckpointDirectory(directory, own.model, step, optimizer)
        checkpoints.write_description(own.description.hyperparameters, vocabulary)
        checkpoints.save()
        return notes

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns the hyperparameters of the run."""
        folder = containing_folder(path)
        if "hyperparameters" not in read_json(os.path.join(folder, CONFIG_FILE)):
            return None
        values = dict(load_saved_config(folder).hyperparameters)
        values.pop("vocab_file", None)
        return values | vocabulary_setting(os.path.join(folder, VOCAB_FILE))


def _optimizer(variables: list["keras.Variable"]) -> Any:
    """Returns an optimizer like that of training, to hold moments."""
    from electra_tf.training.learning_rate import WarmupPolynomialDecay
    from electra_tf.training.optimizer import ElectraAdam

    optimizer = ElectraAdam(WarmupPolynomialDecay(0.0, 1))
    optimizer.build(variables)
    return optimizer


def _head_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """Returns the shapes of fine-tuned heads, whose variables have the authors' names."""
    return {k: list(v.shape) for k, v in arrays.items() if k.startswith(TASK_SCOPE)}


def build_model(description: SavedConfig) -> RebuiltModel:
    """Returns the model that `config.json` describes, with random weights.

    No data is read: the heads of fine-tuned models follow from their variables' shapes.
    """
    values = description.hyperparameters
    is_pretraining = "electra_objective" in values
    return (_pretraining if is_pretraining else _finetuning)(description)


def load_model(checkpoint: ModelCheckpoint) -> RebuiltModel:
    """Returns the model of a checkpoint, with its weights.

    Raises:
        UserError: a weight is missing or has another shape than the description says.
    """
    from electra_tf.interop.variable_names import assign_arrays

    hyperparameters = own_hyperparameters(checkpoint)
    own = build_model(SavedConfig(hyperparameters, _head_shapes(checkpoint.arrays)))
    names = [name for entry in own.mapping for name in entry.names]
    assign_arrays(checkpoint.arrays, own.mapping, "to convert", names)
    return own


def _pretraining(description: SavedConfig) -> RebuiltModel:
    from electra_tf.interop.variable_names import named_variables
    from electra_tf.model.batch_types import SpecialTokenIds
    from electra_tf.pretraining_model import PretrainingModel

    values = description.hyperparameters
    known = {field.name for field in dataclasses.fields(PretrainingConfig)}
    config = PretrainingConfig.create(
        **{
            **{name: value for name, value in values.items() if name in known},
            "init_checkpoint": None,
            "precision": "float32",
            "do_train": True,
            "do_eval": False,
        }
    )
    # Which tokens are special decides on masks, and not on weights.
    model = PretrainingModel(config, SpecialTokenIds(cls=0, sep=0, mask=0))
    has_generator = model.two_tower is not None or (
        model.generator is not None and model.generator is not model.electra
    )
    return RebuiltModel(
        model,
        named_variables(model),
        ModelDescription(
            encoder=discriminator_config(config),
            generator=generator_config(config) if has_generator else None,
            do_lower_case=config.do_lower_case,
            strip_accents=config.strip_accents,
            hyperparameters=values,
        ),
    )


def _finetuning(description: SavedConfig) -> RebuiltModel:
    from finetune.model import FinetuningModel
    from finetune.model_family import finetuned_variables, saved_tasks

    values = description.hyperparameters
    encoder = encoder_config(
        values["model_size"],
        values.get("model_hparam_overrides") or {},
        embedding_size=values["embedding_size"],
        vocab_size=values["vocab_size"],
    )
    tasks = saved_tasks(description)
    labels = values.get(LABELS, {})
    model = FinetuningModel(encoder, tasks)
    return RebuiltModel(
        model,
        finetuned_variables(model),
        ModelDescription(
            encoder=encoder,
            do_lower_case=values["do_lower_case"],
            strip_accents=values["strip_accents"],
            tasks=tuple(
                TaskDescription(task.name, task.kind, tuple(labels.get(task.name, ())))
                for task in tasks
            ),
            hyperparameters=values,
        ),
    )
