"""This project's checkpoints: of pre-training, of fine-tuning, or of an encoder only.

Imports no TensorFlow: the given families read and write the models.
"""

import os
from typing import Any

from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.interop.model_checkpoint import (
    CheckpointFormat,
    ModelCheckpoint,
    containing_folder,
    find_family,
    vocabulary_setting,
    with_hyperparameters,
)
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json

_INDEX = ".index"


class NativeFormat(CheckpointFormat):
    """`config.json`, `vocab.txt` and checkpoints named `ckpt-STEP`."""

    name = "electra_tf"

    def recognizes(self, path: str) -> bool:
        """Returns whether it is a folder of this project with a checkpoint, or a prefix."""
        if not _is_described(containing_folder(path)):
            return False
        if os.path.isdir(path):
            return any(name.endswith(_INDEX) for name in os.listdir(path))
        return os.path.isfile(path.removesuffix(_INDEX) + _INDEX)

    def read(self, path: str | os.PathLike[str]) -> ModelCheckpoint:
        """Returns the latest checkpoint of a folder, or the one with a prefix.

        Raises:
            UserError: the checkpoint cannot be restored into the model of `config.json`.
        """
        path = os.fspath(path)
        folder = containing_folder(path)
        saved = load_saved_config(folder)
        if saved is None:
            raise UserError(f"{folder} is not a model of this project: it has no {CONFIG_FILE}")
        source = os.path.join(folder, CONFIG_FILE)
        return find_family(saved.hyperparameters, self.families, source).read(path, saved)

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a checkpoint, from which training can resume if the moments are known.

        Raises:
            UserError: a weight is missing, or its shape differs from the description.
        """
        checkpoint = with_hyperparameters(checkpoint, self.families)
        family = find_family(checkpoint.description.hyperparameters, self.families)
        return family.write(checkpoint, directory)

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns the hyperparameters of the run."""
        folder = containing_folder(path)
        if not _is_described(folder):
            return None
        values = dict(load_saved_config(folder).hyperparameters)
        values.pop("vocab_file", None)
        return values | vocabulary_setting(os.path.join(folder, VOCAB_FILE))


def _is_described(folder: str) -> bool:
    return "hyperparameters" in read_json(os.path.join(folder, CONFIG_FILE))
