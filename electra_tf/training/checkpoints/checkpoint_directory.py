"""The checkpoints of a run, with its configuration and vocabulary."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf.config.saved_config import (
    CONFIG_FILE,
    CONFIG_VERSION,
    VERSION,
    load_saved_config,
)
from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    TokenizerDescription,
    hash_vocabulary,
    write_tokenizer_description,
)
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import (
    checkpoint_path,
    newest_whole,
    read_shapes,
    require_whole,
    step_of,
)
from electra_tf.training.checkpoints.checkpoint_writing import keep_newest, whole_checkpoint
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import write_atomically
from electra_tf.util.paths import as_path, is_remote
from electra_tf.util.plain_paths import plain_path
from electra_tf.util.seals import sealed

_MAX_DIFFERENCES_SHOWN = 20
# Attribute of a checkpoint, which is part of the names of its tensors.
_OPTIMIZER = "optimizer"


class CheckpointDirectory:
    """Saves and restores the checkpoints of a run.

    A checkpoint contains the model, the optimizer and the step. The position in the data and
    all random streams are functions of the step (see `pretrain_data.records.reader` and
    `electra_tf.model.randomness`).

    All workers call the same methods, but only the chief writes; they must share the folder.

    Args:
        directory: folder of the checkpoints and their description.
        model: model to save and restore.
        step: int64 variable, the global step.
        optimizer: built optimizer of the model; None ignores the optimizer in a checkpoint.
        keep_checkpoint_max: number of newest checkpoints to keep; 0 keeps all.
        workers: processes of the run; None for one process.
        partial: whether the model may lack variables of the saved one, which are ignored.

    Raises:
        UserError: `directory` is a URL.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: keras.Model,
        step: tf.Variable,
        optimizer: keras.optimizers.Optimizer | None = None,
        keep_checkpoint_max: int = 5,
        workers: Workers | None = None,
        *,
        partial: bool = False,
    ) -> None:
        directory = os.fspath(directory)
        if "://" in directory:
            raise UserError(
                f"{directory} is not a folder on a file system, which checkpoints need: mount "
                "the bucket, and pass the path of the mounted folder"
            )
        self.directory = directory
        self._partial = partial
        self._workers = workers
        self._is_chief = workers is None or workers.is_chief
        self._model = model
        self._step = step
        tracked = {"model": model, "step": step}
        if optimizer is not None:
            tracked[_OPTIMIZER] = optimizer
        self._checkpoint = tf.train.Checkpoint(**tracked)
        self._keep_checkpoint_max = keep_checkpoint_max
        self._with_optimizer = optimizer is not None
        self._latest: str | None = None
        self._describe: Callable[[], None] | None = None

    @property
    def latest(self) -> str | None:
        """Path prefix of the checkpoint that was last restored or saved, or None."""
        return self._latest

    def restore_latest(self) -> bool:
        """Restores the newest whole checkpoint; returns False if there is none.

        Raises:
            UserError: there are checkpoints, but none is whole; or the newest is of another
                model, and the message lists the differing variables.
        """
        newest = newest_whole(self.directory)
        self._check_shared(newest)
        if newest is None:
            return False
        self._restore(newest)
        return True

    def resume(self) -> bool:
        """Calls `restore_latest`, and finishes a save that was killed at its very end.

        Such a save may have left older checkpoints, and TensorFlow's `checkpoint` file may
        still name one of them.

        Raises:
            UserError: as `restore_latest`, or the folder cannot be written.
        """
        if not self.restore_latest():
            return False
        if self._is_chief:
            step = int(self._step.numpy())
            try:
                keep_newest(self.directory, step, self._keep_checkpoint_max)
            except OSError as error:
                raise UserError(
                    f"{self.directory} cannot be written: {reason_of(error)}"
                ) from error
        return True

    def restore(self, prefix: str) -> None:
        """Restores the checkpoint with the path `prefix`, which must be whole."""
        require_whole(prefix)
        self._restore(prefix)

    def _restore(self, prefix: str) -> None:
        self._check_optimizer(prefix)  # first: a converted model may lack the generator, too
        self._check_variables(prefix)
        try:
            with plain_path(prefix) as readable:
                status = self._checkpoint.restore(readable)
                if not self._with_optimizer:
                    status.expect_partial()
                status.assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"The checkpoint {prefix} cannot be restored: {str(error)[:500]}"
            ) from error
        self._latest = prefix

    def save(self) -> None:
        """Writes a checkpoint of the current step, and waits for it on all workers.

        Also writes the description passed to `describe_next`.

        Raises:
            UserError: the disk is full or the folder read-only; the earlier checkpoints are
                as before.
        """
        step = int(self._step.numpy())
        prefix = checkpoint_path(self.directory, step)
        if self._is_chief:
            try:
                with whole_checkpoint(prefix) as temporary:
                    self._checkpoint.save_counter.assign_add(1)
                    self._checkpoint.write(temporary)
                keep_newest(self.directory, step, self._keep_checkpoint_max)
            except (OSError, tf.errors.OpError) as error:
                kept = f"; the last one is {self._latest}" if self._latest else ""
                raise UserError(
                    f"The checkpoint {prefix} cannot be written: {reason_of(error)}{kept}"
                ) from error
            if self._describe is not None:
                self._describe()
                self._describe = None
        if self._workers is not None:
            self._workers.barrier()
        self._latest = prefix

    def write_description(
        self, hyperparameters: Mapping[str, Any], vocab_file: str | os.PathLike
    ) -> None:
        """Writes `config.json`, `vocab.txt` and its tokenizer's description atomically."""
        if self._is_chief:
            self._description(hyperparameters, vocab_file)()

    def describe_next(
        self, hyperparameters: Mapping[str, Any], vocab_file: str | os.PathLike
    ) -> None:
        """Like `write_description`, but writes the files with the next checkpoint.

        Until then, the files of a run that resumes with other settings still describe the
        checkpoint that it resumed from.
        """
        if self._is_chief:
            self._describe = self._description(hyperparameters, vocab_file)

    def _description(
        self, hyperparameters: Mapping[str, Any], vocab_file: str | os.PathLike
    ) -> Callable[[], None]:
        """Returns a function that writes the files of `write_description`."""
        tokenizer = TokenizerDescription(
            vocab_sha256=hash_vocabulary(vocab_file) or "",
            **{name: bool(hyperparameters.get(name, True)) for name in TOKENIZER_SETTINGS},
        )
        description = {
            VERSION: CONFIG_VERSION,
            "hyperparameters": dict(hyperparameters),
            "variables": _shapes(self._model.variables),
            "tokenizer": tokenizer.to_dict(),
        }
        content = json.dumps(sealed(description), indent=2, sort_keys=True) + "\n"
        target = os.path.join(self.directory, VOCAB_FILE)
        is_other = is_remote(vocab_file) or os.path.abspath(vocab_file) != os.path.abspath(
            target
        )
        vocabulary = as_path(vocab_file).read_bytes() if is_other else None

        def write() -> None:
            write_atomically(os.path.join(self.directory, CONFIG_FILE), content)
            if vocabulary is not None:
                write_atomically(target, vocabulary)
            write_tokenizer_description(target, tokenizer)

        return write

    def _check_shared(self, latest: str | None) -> None:
        if self._workers is None:
            return
        self._workers.require_same(
            -1 if latest is None else step_of(latest),
            f"The workers see different checkpoints in {self.directory}: it must be a shared "
            "folder, and --model_dir the same for all workers",
        )

    def _check_variables(self, prefix: str) -> None:
        description = load_saved_config(self.directory)
        if description is None:
            return  # restoring will report it
        wanted = _shapes(self._model.variables)
        saved = description.variables
        if self._partial:
            saved = {name: shape for name, shape in saved.items() if name in wanted}
        differences = describe_differences(saved, wanted)
        if differences:
            shown = differences[:_MAX_DIFFERENCES_SHOWN]
            if len(differences) > len(shown):
                shown.append(f"… and {len(differences) - len(shown)} more")
            raise UserError(
                f"The checkpoint {prefix} belongs to a different model than the configured "
                "one. Use another --model_name, or the flags of the first run (see "
                f"{os.path.join(self.directory, CONFIG_FILE)}). Differing variables:\n  "
                + "\n  ".join(shown)
            )

    def _check_optimizer(self, prefix: str) -> None:
        if self._with_optimizer and not any(
            name.startswith(f"{_OPTIMIZER}/") for name in read_shapes(prefix)
        ):
            raise UserError(
                f"The checkpoint {prefix} has no state of an optimizer, as after a conversion, "
                "so no run resumes from it: train in another folder, from its weights with "
                f"--init_checkpoint={self.directory}"
            )


def describe_differences(
    saved: Mapping[str, Sequence[int]], wanted: Mapping[str, Sequence[int]]
) -> list[str]:
    """Returns one line per variable whose name or shape differs between two models."""
    lines = []
    for name in sorted({*saved, *wanted}):
        if name not in wanted:
            lines.append(f"{name}: {list(saved[name])} only in the checkpoint")
        elif name not in saved:
            lines.append(f"{name}: {list(wanted[name])} only in the model")
        elif list(saved[name]) != list(wanted[name]):
            lines.append(
                f"{name}: {list(saved[name])} in the checkpoint, "
                f"{list(wanted[name])} in the model"
            )
    return lines


def _shapes(variables: Sequence[keras.Variable]) -> dict[str, list[int]]:
    return {variable.path: list(variable.shape) for variable in variables}
