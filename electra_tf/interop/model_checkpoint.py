"""What all checkpoint formats have in common: a description, and arrays by name.

No TensorFlow is imported here: flags are filled in from descriptions before anything slow
happens.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from electra_tf.config.encoder import MODEL_SIZES, OVERRIDABLE, EncoderConfig, encoder_config

DISCRIMINATOR_HEAD = "discriminator_predictions/"
GENERATOR_HEAD = "generator_predictions/"
GENERATOR_SCOPE = "generator/"
GENERATOR_EMBEDDINGS = "generator/embeddings/"
# The two-tower generator of Electric; both towers have one shape.
TOWER_SCOPE = "generator_ltr/"
TOWER_EMBEDDINGS = "generator_ltr/embeddings/"
TASK_SCOPE = "task_specific/"
# The authors' optimizer keeps two moments of each variable under the variable's name.
SLOTS = ("/adam_m", "/adam_v")
# Keys of a fine-tuned model's hyperparameters.
LABELS = "labels"
TASKS = "tasks"
VOCAB_FILE = "vocab.txt"


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """A fine-tuned head: its name, its kind (of `finetune.custom.spec`) and its labels."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What a model is, beside its weights.

    Attributes:
        encoder: shape of the encoder that is fine-tuned: the discriminator's, where there
            are two.
        generator: shape of the generator where it is an encoder of its own.
        do_lower_case, strip_accents: what the tokenizer does to text.
        vocabulary: bytes of `vocab.txt`, one token a line; None where the format has none.
        tasks: heads of fine-tuning.
        hyperparameters: those of the run, where it was one of this project's.
    """

    encoder: EncoderConfig
    generator: EncoderConfig | None = None
    do_lower_case: bool = True
    strip_accents: bool = True
    vocabulary: bytes | None = dataclasses.field(default=None, repr=False)
    tasks: tuple[TaskDescription, ...] = ()
    hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    def model_settings(self) -> dict[str, Any]:
        """Returns the hyperparameters of this project that ask for such an encoder."""
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
            },
            "embedding_size": self.encoder.embedding_size,
            "vocab_size": vocab_size,
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelCheckpoint:
    """A model in memory.

    Attributes:
        description: what it is.
        arrays: by the authors' names: `electra/…`, `generator/…` (without embeddings where
            these are shared), `discriminator_predictions/…`, `generator_predictions/…`,
            `generator_ltr/…`, `generator_rtl/…` and `cloze_predictions/…` of Electric,
            `task_specific/<task>/…`, and of each its moments `…/adam_m` and `…/adam_v`
            where they were saved.
        step: updates done; None where the format does not say.
        notes: sentences about what the source holds and this does not.
    """

    description: ModelDescription
    arrays: Mapping[str, np.ndarray]
    step: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def has_discriminator(self) -> bool:
        """Whether the head of replaced-token detection is there."""
        return self._has(DISCRIMINATOR_HEAD)

    @property
    def has_masked_lm(self) -> bool:
        """Whether the head that predicts masked tokens is there."""
        return self._has(GENERATOR_HEAD)

    @property
    def has_generator_encoder(self) -> bool:
        """Whether the generator is an encoder of its own."""
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


class CheckpointFormat(Protocol):
    """One format: how to recognize, read and write it."""

    name: str

    def recognizes(self, path: str) -> bool:
        """Returns whether a file or folder looks like this format; imports no TensorFlow."""

    def read(self, path: str) -> ModelCheckpoint:
        """Returns the model at `path`; raises UserError for what cannot be read."""

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a model that has a vocabulary; returns what has no counterpart there."""

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns what a checkpoint says of model and tokenizer, without reading its weights.

        These are hyperparameters of this project, and `vocab_file` where the vocabulary lies
        in a file of one token a line. Imports no TensorFlow.

        Args:
            path: a folder, or the prefix of a checkpoint's files.
            needs_vocabulary: whether to insist on such a file where the model has a vocabulary.

        Returns:
            None for a path that this format does not describe.

        Raises:
            UserError: a description that cannot be read, or a vocabulary that lies in a file
                of another kind.
        """


def containing_folder(path: str) -> str:
    """Returns a folder as it is, and of the prefix of a checkpoint's files the folder."""
    return path if os.path.isdir(path) else os.path.dirname(path)


def vocabulary_setting(vocab_file: str) -> dict[str, str]:
    """Returns the setting `vocab_file`, where there is such a file."""
    return {"vocab_file": vocab_file} if os.path.exists(vocab_file) else {}
