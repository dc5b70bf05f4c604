"""Configuration of a pre-training run, and the shapes of the two models it describes.

No TensorFlow is imported here.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from electra_tf.config.checks import check_pretraining
from electra_tf.config.choices import (
    SHARE_ALL,
    SHARE_NONE,
    WITHOUT_ENCODER,
    WITHOUT_GENERATOR,
    resolve_choices,
)
from electra_tf.config.distribution import distribution_defaults, without_unused_tpu
from electra_tf.config.encoder import (
    HEAD_SIZE,
    MODEL_SIZES,
    EncoderConfig,
    debug_overrides,
    default_embedding_size,
    encoder_config,
    encoder_shape,
    given_embedding_size,
)
from electra_tf.config.hyperparameters import checked_values
from electra_tf.config.pretraining_fields import PretrainingFields
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_model_name, check_not_empty

TRAIN_FLAG = "--pretrain_tfrecords"
EVAL_FLAG = "--eval_tfrecords"
_RESULTS = ("results_json", "results_pkl", "results_txt")
# Paths that get a default if unset, but not if empty.
_PATHS = (
    "init_checkpoint",
    "model_dir",
    "pretrain_tfrecords",
    "results_json",
    "results_txt",
    "vocab_file",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(PretrainingFields):
    """Hyperparameters of a pre-training run, complete and checked.

    Build instances with `PretrainingConfig.create`: it fills in the fields derived from
    others (paths, `embedding_size`, `debug`) and validates all values.
    """

    @classmethod
    def create(cls, **given: Any) -> "PretrainingConfig":
        """Fills in derived values and validates everything; None means not given.

        Reads no files: `electra_tf.interop.initial_settings.pretraining_config` also applies
        the settings of `init_checkpoint`.

        Raises:
            UserError: a value is invalid; the message names the flag.
        """
        given = checked_values(cls, given)
        given = without_unused_tpu(given)
        for name in ("data_dir", "model_name"):
            if not given.get(name):
                raise UserError(f"--{name} is required")
        check_model_name(given["model_name"])
        for name in _PATHS:
            check_not_empty(given.get(name), f"--{name}")
        derived: dict[str, Any] = {
            "model_hparam_overrides": {},
            "objective_hparams": {},
            "masking_hparams": {},
            **distribution_defaults(given),
        }
        if given.get("debug"):
            derived.update(
                train_batch_size=8,
                num_train_steps=20,
                eval_batch_size=4,
                iterations_per_loop=1,
                num_eval_steps=2,
            )
        model_dir = default_model_dir(given)
        derived.update(
            pretrain_tfrecords=default_records(given["data_dir"]),
            vocab_file=os.path.join(given["data_dir"], VOCAB_FILE),
            model_dir=model_dir,
            **default_results(model_dir),
        )
        merged = {**derived, **given, **resolve_choices(given), "model_dir": model_dir}
        size = merged.get("model_size", "small")
        if size not in MODEL_SIZES:
            raise UserError(
                f"--model_size must be one of {', '.join(MODEL_SIZES)}, not {size!r}"
            )
        if merged.get("debug"):
            merged["model_hparam_overrides"] = debug_overrides(merged["model_hparam_overrides"])
        overrides = merged["model_hparam_overrides"]
        if "vocab_size" in overrides:  # the authors' code reads it from either place
            merged.setdefault("vocab_size", overrides["vocab_size"])
        embedding_size = given_embedding_size(merged, size, overrides)
        if embedding_size is None:
            embedding_size = default_embedding_size(size, overrides)
        merged["embedding_size"] = embedding_size
        if "max_predictions_per_seq" not in merged:
            merged["max_predictions_per_seq"] = default_max_predictions(
                max(merged.get("mask_prob", 0.15), merged.get("mask_prob_end", 0.0)),
                merged.get("max_seq_length", 128),
            )
        merged.setdefault("log_steps", merged.get("iterations_per_loop", 200))
        for name in ("length_curriculum", "allow_changed_settings"):
            merged[name] = tuple(merged.get(name, ()))
        config = cls(**merged)
        check_pretraining(config, discriminator_config(config))
        generator_config(config)  # rejects a generator without layers or units
        steps_by_length(config)  # rejects a curriculum that leaves a length without steps
        return config

    def warn_of_unused(self) -> None:
        """Warns of settings without effect on training or evaluation."""
        if self.do_train:
            if not self.learning_rate and not self.generator_learning_rate:
                warn_once("--learning_rate=0 changes no weights")
            default = default_results(self.model_dir)
            for name in _RESULTS:
                if (path := getattr(self, name)) != default.get(name):
                    warn_once(f"--{name}={path} has no effect without --do_eval")
        else:
            self.warn_of_unused_trackers()
        share = self.length_curriculum_share
        if not self.length_curriculum and share != PretrainingFields.length_curriculum_share:
            warn_once(
                f"--length_curriculum_share={share} has no effect without --length_curriculum"
            )
        self.warn_of_unused_workers()

    def to_json(self) -> str:
        """Returns all hyperparameters as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def default_model_dir(given: Mapping[str, Any]) -> str:
    """Returns `model_dir` without a trailing slash; by default, DATA_DIR/models/NAME."""
    if model_dir := given.get("model_dir"):
        return model_dir.rstrip(os.sep) or model_dir
    return os.path.join(given["data_dir"], "models", given["model_name"])


def default_results(model_dir: str) -> dict[str, str]:
    """Returns the default result files of an evaluation, by hyperparameter."""
    stem = os.path.join(model_dir, "results", "unsup_results")
    return {"results_txt": f"{stem}.txt", "results_json": f"{stem}.json"}


def discriminator_config(config: PretrainingConfig) -> EncoderConfig:
    """Returns the shape of the discriminator: the model size with overrides applied.

    Raises:
        UserError: an override is not a field of the encoder.
    """
    return encoder_config(
        config.model_size,
        config.model_hparam_overrides,
        embedding_size=config.embedding_size,
        vocab_size=config.vocab_size,
    )


def generator_config(config: PretrainingConfig) -> EncoderConfig:
    """Returns the generator's shape: fractions of the discriminator's width and depth.

    As in the authors' code, its attention heads and intermediate size depend on its own width,
    regardless of overrides. Unshared embeddings are as wide as its hidden layers. Without an
    encoder of its own, it has the discriminator's shape, and the fractions are ignored.

    Raises:
        UserError: the fractions give no layers or units, or the width does not fit its heads.
    """
    discriminator = discriminator_config(config)
    has_encoder = (
        config.objective not in WITHOUT_GENERATOR
        and config.generator_type not in WITHOUT_ENCODER
    )
    if config.embedding_sharing == SHARE_ALL or not has_encoder:
        return discriminator
    hidden_size = round(config.generator_hidden_size * discriminator.hidden_size)
    layers = round(config.generator_layers * discriminator.num_hidden_layers)
    if layers < 1 or hidden_size < 1:
        raise UserError(
            f"--generator_layers={config.generator_layers} and --generator_hidden_size="
            f"{config.generator_hidden_size} give a generator of {layers} layers and "
            f"{hidden_size} units"
        )
    shape = encoder_shape(hidden_size, layers)
    heads = shape["num_attention_heads"]
    if hidden_size % heads:
        raise UserError(
            f"--generator_hidden_size={config.generator_hidden_size} gives a generator of "
            f"{hidden_size} units, which is not a multiple of its {heads} attention heads "
            f"(one per {HEAD_SIZE} units)"
        )
    return dataclasses.replace(
        discriminator,
        embedding_size=(
            hidden_size
            if config.embedding_sharing == SHARE_NONE
            else discriminator.embedding_size
        ),
        **shape,
    )


def default_records(data_dir: str) -> str:
    """Returns the pattern of the training records in a data folder."""
    return os.path.join(data_dir, "pretrain_tfrecords", "pretrain_data.tfrecord*")


def default_max_predictions(mask_prob: float, max_seq_length: int) -> int:
    """Returns the authors' limit of masked tokens: 19 of 128 tokens at 15 %."""
    return max(1, int((mask_prob + 0.005) * max_seq_length))


def max_predictions(config: PretrainingConfig, seq_length: int | None) -> int:
    """Returns the maximum number of masked tokens per sequence.

    It is proportional to the length in a curriculum. None, for an unknown
    length, returns that of `max_seq_length`.
    """
    if seq_length is None or seq_length >= config.max_seq_length:
        return config.max_predictions_per_seq
    return max(1, round(config.max_predictions_per_seq * seq_length / config.max_seq_length))


def steps_by_length(config: PretrainingConfig) -> dict[int, int]:
    """Returns the number of training steps at each sequence length, in training order.

    `length_curriculum_share` of the steps is divided equally among the lengths of
    `length_curriculum`; the rest is trained at `max_seq_length`.

    Raises:
        UserError: a length gets no step.
    """
    lengths = (*config.length_curriculum, config.max_seq_length)
    shorter = len(config.length_curriculum)
    short = round(config.length_curriculum_share * config.num_train_steps) if shorter else 0
    ends = [short * (i + 1) // shorter for i in range(shorter)] + [config.num_train_steps]
    starts = [0, *ends[:-1]]
    if any(start >= end for start, end in zip(starts, ends, strict=True)):
        raise UserError(
            f"--length_curriculum_share={config.length_curriculum_share} with "
            f"--num_train_steps={config.num_train_steps} leaves no steps for one of the "
            f"lengths {', '.join(map(str, lengths))}"
        )
    return {
        length: end - start for length, start, end in zip(lengths, starts, ends, strict=True)
    }
