"""The provenance of scores: hashes of checkpoint, vocabulary, task files and settings.

No TensorFlow is imported here.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from electra_tf.config.hyperparameters import EVALUATION, TRAINING
from electra_tf.config.recorded_settings import (
    comparable_settings,
    influences,
    settings_digest,
)
from electra_tf.text.tokenizer_description import TOKENIZER_SETTINGS
from electra_tf.util.errors import UserError
from finetune.config.custom_task_fields import reading_settings
from finetune.config.finetuning import FinetuningConfig

# Key of a model's `config.json`: SHA-256 of the encoder that its training started from.
PRETRAINED = "pretrained_encoder"
# Settings of training that an evaluation may change, and that affect its scores.
TRAINING_AND_EVALUATION = (
    "authors_tagging_truncation",
    "doc_stride",
    "long_text",
    "max_query_length",
    "max_seq_length",
    "precision",
    "window_stride",
)
_SHOWN = 12


class Provenance(NamedTuple):
    """SHA-256 of what the scores depend on, in hexadecimal.

    Attributes:
        pretrained_checkpoint: weights of the encoder that fine-tuning started from, "random",
            or None if the model does not record it.
        task_files: contents of the files of all tasks and splits.
        settings: settings of training and evaluation.
        vocabulary: file of the vocabulary.
    """

    pretrained_checkpoint: str | None
    task_files: str
    settings: str
    vocabulary: str

    @property
    def hash(self) -> str:
        """SHA-256 of all four."""
        return settings_digest(self._asdict())

    def to_dict(self) -> dict[str, str | None]:
        """Returns the four hashes, and the hash of all."""
        return {"hash": self.hash, **self._asdict()}

    def describe(self) -> str:
        """Returns one line with the first digits of each hash."""
        parts = {"pre-trained checkpoint": self.pretrained_checkpoint or "unknown"}
        parts |= {"vocabulary": self.vocabulary, "task files": self.task_files}
        parts["settings"] = self.settings
        named = ", ".join(f"{name} {value[:_SHOWN]}" for name, value in parts.items())
        return f"Hash {self.hash[:_SHOWN]}: {named}"


def common_provenance(before: Provenance | None, now: Provenance) -> Provenance:
    """Returns the provenance that two trials share, unknown in parts that one does not record.

    Args:
        before: provenance of the trials so far; None before the first.
        now: provenance of the next trial.

    Raises:
        UserError: they differ.
    """
    if before is None:
        return now
    if before.pretrained_checkpoint is None or now.pretrained_checkpoint is None:
        unknown = {"pretrained_checkpoint": None}
        before, now = before._replace(**unknown), now._replace(**unknown)
    if before != now:
        raise UserError(
            "The trials come from different pre-trained checkpoints or settings, so their "
            f"results cannot be aggregated: fine-tune again. Before: {before.describe()}. "
            f"Now: {now.describe()}"
        )
    return now


def files_digest(paths: Iterable[str]) -> str:
    """Returns the SHA-256 of the names and contents of files; missing ones count as such."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{os.path.basename(path)}\n".encode())
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def tokenization(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that affect how a text is divided into tokens.

    `strip_accents` has no effect without lowercasing.
    """
    values = {name: hyperparameters.get(name) for name in TOKENIZER_SETTINGS}
    if values["do_lower_case"] is False:
        del values["strip_accents"]
    return {name: value for name, value in values.items() if value is not None}


def scored_settings_digest(given: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> str:
    """Returns the SHA-256 of the settings that scores depend on.

    Args:
        given: hyperparameters of the run.
        recorded: hyperparameters that an evaluated model was trained with; None if this run
            trains it.
    """
    kinds = influences(FinetuningConfig)
    now = comparable_settings(FinetuningConfig, given)
    trained = {**now, **comparable_settings(FinetuningConfig, recorded or {})}
    # Left out if they are the same as in training, so that both have the same digest.
    reading, as_trained = reading_settings(given), reading_settings(trained)
    is_other = reading != as_trained
    tokenized = tokenization(now)
    is_other_text = tokenized != tokenization(trained)

    def with_influence(settings: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return {name: v for name, v in settings.items() if kinds.get(name) == kind}

    # With --debug, only a few examples are used; left out without it, so that older digests
    # stay valid.
    is_debug = trained.get("debug") or now.get("debug")
    return settings_digest(
        {
            "training": with_influence(trained, TRAINING),
            "evaluation": with_influence(now, EVALUATION),
            "both": {name: now[name] for name in TRAINING_AND_EVALUATION},
            **({"debug": True} if is_debug else {}),
            **({"reading": reading} if is_other else {}),
            **({"tokenization": tokenized} if is_other_text else {}),
        }
    )
