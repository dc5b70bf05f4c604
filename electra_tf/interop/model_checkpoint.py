"""Common representation of all checkpoint formats: a description, and arrays by name.

No TensorFlow is imported here: flags are filled in from descriptions before anything slow
happens.
"""

import abc
import collections
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.config.encoder import (
    MODEL_SIZES,
    OVERRIDABLE,
    WIDTH_FIELDS,
    EncoderConfig,
    encoder_config,
)
from electra_tf.config.saved_config import SavedConfig
from electra_tf.config.trained_positions import TRAINED_POSITIONS
from electra_tf.text.tokenizer_description import TOKENIZER_SETTINGS
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_plain_name

# Prefixes of the names of arrays.
ENCODER_SCOPE = "electra/"
DISCRIMINATOR_HEAD = "discriminator_predictions/"
GENERATOR_HEAD = "generator_predictions/"
GENERATOR_SCOPE = "generator/"
GENERATOR_EMBEDDINGS = "generator/embeddings/"
# The two-tower generator of Electric; both towers have the same shape.
TOWER_SCOPE = "generator_ltr/"
TOWER_EMBEDDINGS = "generator_ltr/embeddings/"
TASK_SCOPE = "task_specific/"
# The authors' optimizer saves two moments of each variable under its name. They have no LAMB.
ADAM_SLOTS = ("/adam_m", "/adam_v")
LAMB_SLOTS = ("/lamb_m", "/lamb_v")
SLOTS = ADAM_SLOTS + LAMB_SLOTS
# Keys of a fine-tuned model's hyperparameters.
LABELS = "labels"
TASKS = "tasks"
# Keys of a description in TASKS that are fields of `TaskDescription`; the rest are settings.
_KIND = "kind"
_TASK_FIELDS = (_KIND, LABELS)


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """A fine-tuned head.

    Attributes:
        name: name of the task.
        kind: its kind; None if unknown.
        labels: its labels; empty if there are none, or they are unknown.
        settings: other settings that its answers depend on, such as whether texts are pairs,
            and hyperparameters of its run; empty if unknown.

    Raises:
        UserError: the name, which becomes part of paths, would lead to another folder.
    """

    name: str
    kind: str | None
    labels: tuple[str, ...] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_plain_name(self.name, "task", "The model")


def saved_task(name: str, hyperparameters: Mapping[str, Any]) -> TaskDescription:
    """Returns a task as the hyperparameters of a fine-tuned model describe it."""
    described = (hyperparameters.get(TASKS) or {}).get(name, {})
    return TaskDescription(
        name,
        described.get(_KIND),
        tuple((hyperparameters.get(LABELS) or {}).get(name, ())),
        task_settings(described),
    )


def task_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of a task's description in `config.json` but kind and labels."""
    return {name: value for name, value in description.items() if name not in _TASK_FIELDS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """Description of a model, without weights.

    Attributes:
        encoder: shape of the encoder to fine-tune; of two, the discriminator's.
        generator: shape of the generator, if it has its own encoder.
        do_lower_case, strip_accents: tokenizer settings.
        vocabulary: bytes of `vocab.txt`, one token per line; None if the format has none.
        tasks: fine-tuned heads.
        hyperparameters: hyperparameters of the run, if this project trained the model.
        heads_recorded: whether the number of attention heads is known, not assumed.
        tokenizer_recorded: whether the tokenizer settings are known, not assumed.
        trained_positions: number of positions used in training, if the format records it;
            for models of this project, it is in `hyperparameters`.
    """

    encoder: EncoderConfig
    generator: EncoderConfig | None = None
    do_lower_case: bool = True
    strip_accents: bool = True
    vocabulary: bytes | None = dataclasses.field(default=None, repr=False)
    tasks: tuple[TaskDescription, ...] = ()
    hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    heads_recorded: bool = True
    tokenizer_recorded: bool = True
    trained_positions: int | None = None

    def model_settings(self) -> dict[str, Any]:
        """Returns this project's hyperparameters of the encoder and tokenizer."""
        shape = (self.encoder.hidden_size, self.encoder.num_hidden_layers)
        sizes = [size for size, published in MODEL_SIZES.items() if published == shape]
        size = sizes[0] if sizes else "small"
        vocab_size = self.encoder.vocab_size
        published = encoder_config(
            size, {}, embedding_size=self.encoder.embedding_size, vocab_size=vocab_size
        )
        return {
            "model_size": size,
            "model_hparam_overrides": {
                name: getattr(self.encoder, name)
                for name in OVERRIDABLE
                if getattr(self.encoder, name) != getattr(published, name)
                or (name in WIDTH_FIELDS and self.encoder.hidden_size != published.hidden_size)
            },
            "embedding_size": self.encoder.embedding_size,
            "vocab_size": vocab_size,
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
        }

    def training_settings(self) -> dict[str, Any]:
        """Returns this project's hyperparameters on how the model was trained."""
        if self.trained_positions is None:
            return {}
        return {TRAINED_POSITIONS: self.trained_positions}

    def recorded_settings(self) -> dict[str, Any]:
        """Returns the settings that are known; assumed ones of the tokenizer are left out."""
        values = self.model_settings() | self.training_settings()
        if not self.tokenizer_recorded:
            for name in TOKENIZER_SETTINGS:
                del values[name]
        return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelCheckpoint:
    """A checkpoint in memory.

    Attributes:
        description: description of the model.
        arrays: arrays by the authors' names: `electra/…`, `generator/…` (without shared
            embeddings), `discriminator_predictions/…`, `generator_predictions/…`,
            `generator_ltr/…`, `generator_rtl/…` and `cloze_predictions/…` of Electric,
            `task_specific/<task>/…`, and their moments `…/adam_m` and `…/adam_v`, or
            `…/lamb_m` and `…/lamb_v`, if saved.
        step: global step; None if the format does not record it.
        notes: messages about parts of the source that were lost.
        unread: names of weights of the source that were not read.
        path: the checkpoint that was read, if the source can be a folder of several.
    """

    description: ModelDescription
    arrays: Mapping[str, np.ndarray]
    step: int | None = None
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    path: str | None = None

    @property
    def has_discriminator(self) -> bool:
        """Whether it has the head of replaced-token detection."""
        return self._has(DISCRIMINATOR_HEAD)

    @property
    def has_masked_lm(self) -> bool:
        """Whether it has the masked-LM head."""
        return self._has(GENERATOR_HEAD)

    @property
    def has_generator_encoder(self) -> bool:
        """Whether the generator has its own encoder."""
        return self._has(GENERATOR_SCOPE)

    @property
    def has_two_towers(self) -> bool:
        """Whether the generator has two towers."""
        return self._has(TOWER_SCOPE)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays without the optimizer's moments."""
        return {name: v for name, v in self.arrays.items() if not name.endswith(SLOTS)}

    @property
    def slots(self) -> dict[str, np.ndarray]:
        """The optimizer's moments."""
        return {name: v for name, v in self.arrays.items() if name.endswith(SLOTS)}

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns the weights whose names start with `prefix`."""
        return {name: v for name, v in self.weights.items() if name.startswith(prefix)}

    def _has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self.arrays)


class ModelFamily(abc.ABC):
    """A family of this project's models, as seen by formats.

    `native_family.NativeFamily` builds them; no TensorFlow is imported here.
    """

    @abc.abstractmethod
    def describes(self, hyperparameters: Mapping[str, Any]) -> bool:
        """Returns whether the hyperparameters of a `config.json` are of this family."""

    @abc.abstractmethod
    def hyperparameters(self, checkpoint: ModelCheckpoint) -> dict[str, Any] | None:
        """Returns the hyperparameters of `config.json` for a checkpoint of another format.

        Returns:
            None if the checkpoint is not of this family.
        """

    def describe_task(self, name: str, hyperparameters: Mapping[str, Any]) -> TaskDescription:
        """Returns a task as the hyperparameters of a model of this family describe it."""
        return saved_task(name, hyperparameters)

    @abc.abstractmethod
    def read(self, path: str, saved: SavedConfig) -> ModelCheckpoint:
        """Returns the latest checkpoint of a folder, or the one with a prefix.

        Args:
            path: the folder or the prefix.
            saved: `config.json` of the folder.

        Raises:
            UserError: the checkpoint cannot be restored into the model of `config.json`.
        """

    @abc.abstractmethod
    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a folder of this project; see `CheckpointFormat.write`."""


def find_family(
    hyperparameters: Mapping[str, Any],
    families: Sequence[ModelFamily],
    source: str = "the checkpoint",
) -> ModelFamily:
    """Returns the first family that hyperparameters match.

    Args:
        hyperparameters: hyperparameters of a model.
        families: families of this project's models.
        source: where the hyperparameters are from, for the error.

    Raises:
        UserError: no family matches.
    """
    for family in families:
        if family.describes(hyperparameters):
            return family
    raise UserError(f"{source} describes no model that this program uses")


def with_hyperparameters(
    checkpoint: ModelCheckpoint, families: Sequence[ModelFamily]
) -> ModelCheckpoint:
    """Returns a checkpoint with this project's hyperparameters.

    Those of the source are kept; otherwise the first matching family derives them.

    Raises:
        UserError: no family matches.
    """
    description = checkpoint.description
    if description.hyperparameters:
        return checkpoint
    for family in families:
        values = family.hyperparameters(checkpoint)
        if values is not None:
            described = dataclasses.replace(description, hyperparameters=values)
            return dataclasses.replace(checkpoint, description=described)
    heads = ", ".join(task.name for task in description.tasks) or "no task"
    raise UserError(f"No model of this project has the heads of the checkpoint: {heads}")


class CheckpointFormat(abc.ABC):
    """A checkpoint format: recognizes, reads, writes and describes checkpoints.

    Args:
        families: families of this project's models, for formats that build them or describe
            them by this project's hyperparameters.

    Attributes:
        name: name of the format in flags.
        shadowing: files of an earlier conversion, relative to the output folder, that this
            project or the format's own programs would read instead of the new ones.
    """

    name: ClassVar[str]
    shadowing: ClassVar[tuple[str, ...]] = ()

    def __init__(self, families: Sequence[ModelFamily] = ()) -> None:
        self.families = families

    @abc.abstractmethod
    def recognizes(self, path: str) -> bool:
        """Returns whether a file or folder looks like this format; imports no TensorFlow."""

    @abc.abstractmethod
    def read(self, path: str | os.PathLike[str]) -> ModelCheckpoint:
        """Returns the model at `path`; raises UserError if it cannot be read."""

    @abc.abstractmethod
    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a model with a vocabulary; returns messages about what is lost."""

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns the settings of model and tokenizer, without reading weights.

        These are hyperparameters of this project, and `vocab_file` if there is a vocabulary
        file with one token per line. Imports no TensorFlow.

        Args:
            path: a folder, or the prefix of a checkpoint's files.
            needs_vocabulary: whether to require such a file if the model has a vocabulary.

        Returns:
            None for a path that is not of this format.

        Raises:
            UserError: the description cannot be read, or the vocabulary is not in a file with
                one token per line.
        """
        return None


def counted_by_scope(names: Iterable[str]) -> list[str]:
    """Returns a message with the number of arrays in each scope, such as `generator`."""
    counts = collections.Counter(name.partition("/")[0] for name in names)
    return [f"{scope}: {count} arrays" for scope, count in sorted(counts.items())]


def containing_folder(path: str) -> str:
    """Returns the folder of a checkpoint given as a folder or a prefix."""
    return path if os.path.isdir(path) else os.path.dirname(path)


def vocabulary_setting(vocab_file: str) -> dict[str, str]:
    """Returns the setting `vocab_file`, if the file exists."""
    return {"vocab_file": vocab_file} if os.path.exists(vocab_file) else {}
