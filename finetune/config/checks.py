"""Validation of fine-tuning hyperparameters."""

import os

from electra_tf.config.distribution import TPU, check_accumulation
from electra_tf.config.hyperparameters import (
    MAX_SEEDS,
    check_choices,
    check_not_negative,
    check_positive,
    check_seed,
    check_sizes,
)
from electra_tf.text.framing import MIN_INPUT_LENGTH
from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_not_input
from finetune.config.class_weights import parse_class_weights
from finetune.config.finetuning_fields import FinetuningFields

_POSITIVE = (
    "num_train_epochs",
    "clip_norm",
    "save_checkpoints_steps",
    "iterations_per_loop",
    "max_seq_length",
    "train_batch_size",
    "gradient_accumulation_steps",
    "eval_batch_size",
    "predict_batch_size",
    "max_query_length",
    "doc_stride",
    "n_best_size",
    "max_answer_length",
    "beam_size",
    "log_steps",
    "eval_steps",
    "early_stopping_patience",
    "ensemble_size",
)
_SIZES = ("train_batch_size", "eval_batch_size", "predict_batch_size")
_NOT_NEGATIVE = (
    "learning_rate",
    "weight_decay_rate",
    "n_writes_test",
    "focal_gamma",
    "lr_decay_power",
    "answerable_weight",
)


def check_finetuning(config: FinetuningFields) -> None:
    """Raises UserError for invalid values, naming the flag."""
    _check_tasks_and_trials(config)
    check_positive(config, _POSITIVE)
    check_sizes(config, _SIZES)
    check_seed(config.seed, max(1, config.num_trials))
    check_not_negative(config, _NOT_NEGATIVE)
    _check_rates(config)
    check_choices(config)
    check_accumulation(config.train_batch_size, config.gradient_accumulation_steps)
    config.check_distribution()
    if config.strategy == TPU and config.bucket_by_length:
        raise UserError("--strategy=tpu requires a single length: remove --bucket_by_length")
    _check_folds(config)
    _check_predictions(config)
    _check_ensemble(config)
    _check_folders(config)
    if not (
        config.do_train or config.do_eval or config.do_predict or config.write_test_outputs
    ):
        raise UserError(
            "Nothing to do: --do_train, --do_eval, --do_predict and "
            "--write_test_outputs are all false"
        )
    _check_lengths_and_layers(config)


def _check_tasks_and_trials(config: FinetuningFields) -> None:
    if not config.task_names:
        raise UserError("--task_names is empty: pass at least one task")
    repeated = sorted({t for t in config.task_names if config.task_names.count(t) > 1})
    if repeated:
        raise UserError(f"--task_names lists {', '.join(repeated)} more than once")
    if config.num_trials == 0:
        raise UserError("--num_trials must be positive, or negative for endless trials, not 0")
    if config.num_trials > MAX_SEEDS:
        raise UserError(
            f"--num_trials must be at most {MAX_SEEDS}, because each trial has its own seed, "
            f"not {config.num_trials}"
        )
    needs_number = config.num_folds is not None or config.do_predict or not config.do_train
    if config.num_trials < 0 and needs_number:
        raise UserError(
            f"--num_trials={config.num_trials} never ends: --num_folds, --do_predict and "
            "--do_train=false need a positive number of trials"
        )
    if parse_class_weights(config.class_weights) and len(config.task_names) > 1:
        raise UserError("--class_weights with label names needs a single task in --task_names")


def _check_rates(config: FinetuningFields) -> None:
    if not 0 <= config.warmup_proportion <= 1:
        raise UserError(
            f"--warmup_proportion must be in [0, 1], not {config.warmup_proportion}"
        )
    if not config.layerwise_lr_decay <= 1:
        raise UserError(
            f"--layerwise_lr_decay must be at most 1, not {config.layerwise_lr_decay}"
        )
    if not 0 <= config.label_smoothing < 1:
        raise UserError(
            f"--label_smoothing must be at least 0 and below 1, not {config.label_smoothing}"
        )


def _check_folds(config: FinetuningFields) -> None:
    if config.num_folds is not None and config.num_folds < 2:
        raise UserError(f"--num_folds must be at least 2, not {config.num_folds}")
    if config.num_folds is not None and len(config.task_names) > 1:
        raise UserError("--num_folds needs a single task in --task_names")
    if config.selection_fraction is not None:
        if not 0 < config.selection_fraction < 1:
            raise UserError(
                f"--selection_fraction must be between 0 and 1, not {config.selection_fraction}"
            )
        if config.num_folds is None or not config.keep_best:
            raise UserError(
                "--selection_fraction needs --num_folds and --keep_best (or "
                "--early_stopping_patience)"
            )


def _check_predictions(config: FinetuningFields) -> None:
    if config.do_predict and not config.predict_file:
        raise UserError("--do_predict needs --predict_file")
    if config.predict_output and not config.predict_output.endswith((".jsonl", ".tsv")):
        raise UserError(
            f"--predict_output must end in .jsonl or .tsv, not {config.predict_output}"
        )
    inputs = {f"--{x}": getattr(config, x) for x in ("predict_file", "vocab_file", "task_spec")}
    for name in ("predict_output", "results_txt", "results_pkl"):
        if output := getattr(config, name):
            check_not_input(output, f"--{name}", inputs)
    if config.do_predict and len(config.task_names) > 1:
        raise UserError(
            "--do_predict needs a single task in --task_names: to predict with a model that "
            "was trained on several, pass one of them, with --do_train=false and "
            "--init_checkpoint=MODEL, the folder of the model"
        )
    if config.num_folds is not None and (config.do_predict or config.write_test_outputs):
        raise UserError(
            "--num_folds trains a model per fold, so there is no single model to predict with: "
            "remove --do_predict and --write_test_outputs"
        )


def _check_ensemble(config: FinetuningFields) -> None:
    flag = f"--ensemble_size={config.ensemble_size}"
    if config.ensemble_size == 1:
        return
    if config.num_folds is not None:
        raise UserError(f"{flag}: the models of --num_folds are trained on different examples")
    if config.num_trials < config.ensemble_size:
        raise UserError(f"{flag} needs as many trials, not --num_trials={config.num_trials}")
    if not config.do_eval:
        raise UserError(f"{flag} needs --do_eval, because dev scores select the trials")
    if not config.keep_all_models:
        raise UserError(
            f"{flag} needs the models of all trials: remove --keep_all_models=false"
        )


def _check_folders(config: FinetuningFields) -> None:
    for name in ("model_dir", "results_dir", "preprocessed_data_dir"):
        path = getattr(config, name)
        if os.path.isfile(path):
            raise UserError(f"--{name}={path} is a file: pass the path of a folder")


def _check_lengths_and_layers(config: FinetuningFields) -> None:
    if config.max_seq_length < MIN_INPUT_LENGTH:
        raise UserError(
            f"--max_seq_length must be at least {MIN_INPUT_LENGTH}, not {config.max_seq_length}"
        )
    config.check_windows(config.max_seq_length)
    layers = config.encoder.num_hidden_layers
    if not 0 <= config.freeze_layers <= layers:
        raise UserError(
            f"--freeze_layers must be from 0 to the model's {layers} layers, not "
            f"{config.freeze_layers}"
        )
    positions = config.encoder.max_position_embeddings
    if config.max_seq_length > positions:
        raise UserError(
            f"--max_seq_length={config.max_seq_length} exceeds the model's {positions} "
            "position embeddings; --interpolate_positions stretches those of a checkpoint"
        )
