"""Configuration of a fine-tuning run: given and derived hyperparameters."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from electra_tf.config.distribution import (
    BY_RECORD,
    MULTI_WORKER,
    ONE_DEVICE,
    TPU,
    distribution_defaults,
    without_unused_tpu,
)
from electra_tf.config.hyperparameters import checked_values
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_model_name, check_not_empty
from electra_tf.util.paths import is_remote
from finetune.config import defaults
from finetune.config.checks import check_finetuning
from finetune.config.finetuning_fields import FinetuningFields

# Fine-tuning reads and writes local folders only.
_LOCAL_PATHS = (
    "data_dir",
    "model_dir",
    "raw_data_dir",
    "results_dir",
    "preprocessed_data_dir",
    "init_checkpoint",
    "vocab_file",
)
# Paths that have a default if unset, and must not be empty.
_NOT_EMPTY_PATHS = (
    "init_checkpoint",
    "model_dir",
    "predict_output",
    "preprocessed_data_dir",
    "raw_data_dir",
    "results_dir",
    "results_pkl",
    "results_txt",
    "vocab_file",
)
# Hyperparameters of optional parts of the QA head, and the flag that enables each part.
_QA_SWITCHES = {
    "answerable_uses_start_logits": "answerable_classifier",
    "answerable_weight": "answerable_classifier",
    "beam_size": "joint_prediction",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig(FinetuningFields):
    """Hyperparameters of a fine-tuning run, complete and checked.

    Build instances with `FinetuningConfig.create`: it fills in paths and the defaults that
    depend on task and model size, and validates all values.
    """

    @classmethod
    def create(cls, **given: Any) -> "FinetuningConfig":
        """Fills in derived values and validates everything; None means not given.

        Raises:
            UserError: a value is invalid; the message names the flag.
        """
        given = checked_values(cls, given)
        given = without_unused_tpu(given)
        for name in ("data_dir", "model_name"):
            if not given.get(name):
                raise UserError(f"--{name} is required")
        check_model_name(given["model_name"])
        for name in _NOT_EMPTY_PATHS:
            check_not_empty(given.get(name), f"--{name}")
        for name in _LOCAL_PATHS:
            if is_remote(given.get(name, "")):
                raise UserError(
                    f"--{name}={given[name]} must be on this machine: copy it, or mount it"
                )
        tasks = tuple(given.get("task_names", ("chunk",)))
        merged = {
            **defaults.paths(given, tasks),
            **defaults.task_defaults(tasks, defaults.own_kinds(given, tasks)),
            **(defaults.debug_defaults() if given.get("debug") else {}),
            **distribution_defaults(given),
            **given,
            "task_names": tasks,
        }
        if given.get("num_folds"):
            # A pair and its swapped copy must be in the same fold.
            merged["double_unordered"] = False
        if given.get("vocab_size", 1) < 1:
            raise UserError(f"--vocab_size must be positive, not {given['vocab_size']}")
        # Trial numbers are appended to it.
        merged["model_dir"] = merged["model_dir"].rstrip(os.sep)
        merged.update(defaults.model_settings(merged, given))
        if merged["model_size"] == "large":
            merged = {**defaults.LARGE_DEFAULTS, **merged}
        longest = merged["max_seq_length"]
        buckets = merged.get("length_buckets") or defaults.LENGTH_BUCKETS
        if min(buckets) < 1:
            raise UserError(f"--length_buckets must be positive, not {min(buckets)}")
        merged["length_buckets"] = (*sorted({b for b in buckets if b < longest}), longest)
        merged["keep_best"] = merged.get("keep_best", False) or (
            merged.get("early_stopping_patience") is not None
        )
        if merged.get("strategy") == TPU:
            merged.setdefault("bucket_by_length", False)
        config = cls(**merged)
        check_finetuning(config)
        if not config.do_train and "init_checkpoint" in given:
            config.check_evaluated()
            if config.num_trials != 1:
                warn_once(
                    f"--num_trials={config.num_trials} has no effect: --do_train=false and "
                    f"--init_checkpoint={config.init_checkpoint} evaluate one model"
                )
                config = dataclasses.replace(config, num_trials=1)
        config.warn_of_ignored()
        config.warn_of_given(given)
        # It has no effect in fine-tuning, so it is neither recorded nor compared.
        return dataclasses.replace(config, shard_by=BY_RECORD)

    def warn_of_ignored(self) -> None:
        """Warns of hyperparameters that have no effect without others."""
        if self.predict_file and not self.do_predict:
            warn_once(f"--predict_file={self.predict_file} has no effect without --do_predict")
        if self.predict_output and not self.do_predict:
            warn_once(
                f"--predict_output={self.predict_output} has no effect without --do_predict"
            )
        for name, switch in _QA_SWITCHES.items():
            value, default = getattr(self, name), getattr(FinetuningFields, name)
            if not getattr(self, switch) and value != default:
                warn_once(f"--{name}={value} has no effect with --{switch}=false")
        if self.eval_steps and self.do_train and not (self.do_eval or self.keep_best):
            warn_once(f"--eval_steps={self.eval_steps} has no effect with --do_eval=false")
        if self.layerwise_lr_decay <= 0 and self.authors_layerwise_lr_decay:
            warn_once(
                "--authors_layerwise_lr_decay has no effect with "
                f"--layerwise_lr_decay={self.layerwise_lr_decay}"
            )
        self.warn_of_unused_workers()
        if self.strategy == MULTI_WORKER and self.shard_by != BY_RECORD:
            warn_once(
                f"--shard_by={self.shard_by} has no effect in fine-tuning: all workers read "
                "the files of the tasks"
            )
        if self.do_train and not self.learning_rate:
            warn_once("--learning_rate=0 changes no weights")
        if self.answerable_classifier and not self.answerable_weight:
            warn_once(
                "--answerable_weight=0 does not train the answerability classifier, which "
                "decides which questions have no answer: pass --answerable_classifier=false"
            )
        if not self.do_train:
            self.warn_of_unused_trackers()
            if self.overwrite:
                warn_once("--overwrite has no effect with --do_train=false")

    def warn_of_given(self, given: Mapping[str, Any]) -> None:
        """Warns of given hyperparameters without effect, if their defaults depend on others."""
        if given.get("length_buckets") and not self.bucket_by_length:
            warn_once("--length_buckets has no effect with --bucket_by_length=false")
        for name in ("results_txt", "results_pkl"):
            if given.get(name) and not self.do_eval:
                warn_once(f"--{name}={given[name]} has no effect with --do_eval=false")
        if given.get("use_tfrecords_if_existing") and self.debug:
            warn_once("--use_tfrecords_if_existing has no effect with --debug")
        if self.own_task_dev_fraction and self.num_folds:
            warn_once(
                f"--own_task_dev_fraction={self.own_task_dev_fraction} has no effect with "
                "--num_folds, which evaluates on folds of train"
            )
        if given.get("double_unordered") and self.num_folds:
            warn_once(
                "--double_unordered has no effect with --num_folds: a pair and its swapped "
                "copy must be in the same fold"
            )
        if "n_writes_test" in given and not self.write_test_outputs:
            warn_once(
                f"--n_writes_test={self.n_writes_test} has no effect without "
                "--write_test_outputs"
            )
        if self.write_test_outputs and self.n_writes_test == 0:
            warn_once("--write_test_outputs has no effect with --n_writes_test=0")

    def check_evaluated(self) -> None:
        """Raises UserError if `init_checkpoint` cannot be evaluated without training."""
        if self.evaluated_checkpoint is None:
            raise UserError(
                f"--init_checkpoint={self.init_checkpoint} with --do_train=false: it has no "
                "fine-tuned heads to evaluate. Pass the folder of a fine-tuned model, or "
                "remove the flag to evaluate the models in --model_dir"
            )
        if self.ensemble_size > 1:
            raise UserError(
                f"--init_checkpoint={self.init_checkpoint} with --do_train=false is one model, "
                f"not --ensemble_size={self.ensemble_size}: remove one of them"
            )
        if self.num_folds:
            raise UserError(
                f"--init_checkpoint={self.init_checkpoint} with --do_train=false may have seen "
                "the held-out examples of --num_folds: remove one of them"
            )

    @property
    def evaluated_checkpoint(self) -> str | None:
        """The fine-tuned model to evaluate without training, if given."""
        path = self.init_checkpoint
        default = os.path.abspath(self.pretrained_model_dir)
        if self.do_train or path == defaults.RANDOM_INIT or os.path.abspath(path) == default:
            return None
        return path

    @property
    def limits_operation_threads(self) -> bool:
        """Whether prediction limits the threads of operations, so parts of a batch share cores.

        Not in float32, where a single long sequence would take longer. For training, see
        `electra_tf.training.distribution.cores.share_cores`.
        """
        is_plain = self.strategy == ONE_DEVICE and not self.jit_compile
        return is_plain and not self.do_train and self.precision == "mixed_bfloat16"

    @property
    def tasks_label(self) -> str:
        """Comma-separated task names, used in file names."""
        return ",".join(self.task_names)

    @property
    def pretrained_model_dir(self) -> str:
        """DATA_DIR/models/NAME."""
        return os.path.join(self.data_dir, "models", self.model_name)

    def to_json(self) -> str:
        """Returns all hyperparameters as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"
