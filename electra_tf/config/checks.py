"""Validation of pre-training hyperparameters; no TensorFlow is imported here."""

import itertools

from electra_tf.config.distribution import BY_RECORD, check_accumulation
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import (
    check_choices,
    check_not_negative,
    check_positive,
    check_seed,
    check_sizes,
)
from electra_tf.config.pretraining_fields import PretrainingFields
from electra_tf.util.errors import UserError

# Logits divided by a lower temperature overflow, or exceed the penalty of a disallowed token.
_MIN_TEMPERATURE = 1e-6
_POSITIVE = (
    "max_predictions_per_seq",
    "iterations_per_loop",
    "log_steps",
    "save_checkpoints_steps",
    "num_train_steps",
    "num_eval_steps",
    "max_seq_length",
    "train_batch_size",
    "gradient_accumulation_steps",
    "eval_batch_size",
    "generator_layers",
    "generator_hidden_size",
    "clip_norm",
    "shuffle_buffer_size",
)
_SIZES = ("max_predictions_per_seq", "train_batch_size", "eval_batch_size")
_NOT_NEGATIVE = (
    "num_warmup_steps",
    "learning_rate",
    "generator_learning_rate",
    "span_boundary_weight",
    "weight_decay_rate",
    "keep_checkpoint_max",
    "gen_weight",
    "disc_weight",
    "lr_decay_power",
)


def check_pretraining(config: PretrainingFields, encoder: EncoderConfig) -> None:
    """Raises UserError for invalid values, naming the flag.

    Args:
        config: fields of the run.
        encoder: shape of the run's full-size encoder.
    """
    check_positive(config, _POSITIVE)
    check_sizes(config, _SIZES)
    check_not_negative(config, _NOT_NEGATIVE)
    check_seed(config.seed)
    _check_masking_and_sampling(config)
    lengths = (*config.length_curriculum, config.max_seq_length)
    if any(a >= b for a, b in itertools.pairwise(lengths)) or lengths[0] < 1:
        raise UserError(
            f"--length_curriculum={','.join(map(str, config.length_curriculum))} must be "
            f"increasing, and less than --max_seq_length={config.max_seq_length}"
        )
    check_choices(config)
    check_accumulation(config.train_batch_size, config.gradient_accumulation_steps)
    config.check_distribution()
    if config.workers:  # `electra_tf.pretraining.run.train` checks the workers of TF_CONFIG
        check_reading(config, len(config.workers))
    if config.triton_kernels:
        _check_triton_kernels(config)
    if config.do_train == config.do_eval:
        hint = "--do_train=false to evaluate" if config.do_eval else "--do_eval to evaluate"
        raise UserError(
            "Exactly one of --do_train and --do_eval must be true; "
            f"both are {str(config.do_train).lower()}: pass {hint}"
        )
    longest = encoder.max_position_embeddings
    if config.max_seq_length > longest:
        raise UserError(
            f"--max_seq_length={config.max_seq_length} exceeds the model's {longest} "
            "position embeddings: raise max_position_embeddings in "
            "--model_hparam_overrides"
        )


def check_reading(config: PretrainingFields, num_workers: int) -> None:
    """Raises UserError if several workers would share batches that they read differently."""
    by_record = num_workers > 1 and config.shard_by == BY_RECORD
    if by_record and config.do_train and not config.deterministic_reading:
        raise UserError(
            "--deterministic_reading=false with several workers needs --shard_by=file: with "
            f"--shard_by={BY_RECORD}, each worker keeps its rows of every batch, so all must "
            "read the same batches, or examples would be skipped and repeated"
        )


def _check_triton_kernels(config: PretrainingFields) -> None:
    if not config.jit_compile:
        raise UserError("--triton_kernels needs --jit_compile: XLA calls the kernels")
    if config.precision == "float32":
        raise UserError(
            "--triton_kernels needs --precision=mixed_bfloat16 or mixed_float16, "
            "not float32: the kernels compute in half precision"
        )


def _check_masking_and_sampling(config: PretrainingFields) -> None:
    for name in ("temperature", "temperature_end"):
        value = getattr(config, name)
        if value is not None and not value >= _MIN_TEMPERATURE:
            raise UserError(
                f"--{name} must be at least {_MIN_TEMPERATURE}, not {value}; "
                "--replacement=argmax takes the most likely tokens"
            )
    for name in ("mask_prob", "mask_prob_end", "length_curriculum_share"):
        value = getattr(config, name)
        if value is not None and not 0 < value < 1:
            raise UserError(f"--{name} must be between 0 and 1, not {value}")
    if config.word_list and config.masking not in ("whole_word", "span"):
        raise UserError(
            f"--word_list needs --masking=whole_word or --masking=span, not {config.masking}"
        )
    if config.masking_with_replacement and config.masking != "token":
        raise UserError(
            "--masking_with_replacement samples single tokens: it needs --masking=token, not "
            f"{config.masking}"
        )
