"""Checks which settings a resumed pre-training run changes; imports no TensorFlow."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from electra_tf.config.encoder import NOT_IN_SHAPES, EncoderConfig
from electra_tf.config.hyperparameters import EVALUATION, TRAINING
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.recorded_settings import Change, changed_settings, influences
from electra_tf.config.saved_config import CONFIG_FILE, DATA, is_converted, load_saved_config
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint

# Recorded in addition to the hyperparameters: digests of the records by length (DATA), of the
# vocabulary, of the word list (None without one), and of the held-out records, if any; with
# `shard_by` "file", also the number of workers, which determines the examples of each batch.
VOCABULARY, WORDS, FILE_READERS = "vocabulary", "words", "file_readers"
HELD_OUT = "held_out"
_RECORDED = (DATA, VOCABULARY, WORDS, FILE_READERS, HELD_OUT)
# Settings that the stages of an objective depend on.
STAGE_SETTINGS = ("num_train_steps", "objective_hparams")
# Settings of training that change what an evaluation measures, but not the model.
_METRIC_SETTINGS = (
    "disallow_correct",
    "disc_weight",
    "gen_weight",
    "generator_type",
    "mask_prob",
    "masking",
    "masking_hparams",
    "masking_with_replacement",
    "max_predictions_per_seq",
    "objective",
    "objective_hparams",
    "precision",
    "replacement",
    "span_boundary_weight",
    "temperature",
    WORDS,
)
# Settings that determine which tokens were replaced in the discriminator's input, and how
# often.
_REPLACEMENT_SETTINGS = (
    "disallow_correct",
    "generator_type",
    "mask_prob",
    "mask_prob_end",
    "masking",
    "masking_hparams",
    "masking_with_replacement",
    "max_predictions_per_seq",
    "objective",
    "objective_hparams",
    "replacement",
    "temperature",
    "temperature_end",
)
# Settings that converted models record.
_MODEL_SETTINGS = (
    *(field.name for field in dataclasses.fields(EncoderConfig)),
    "do_lower_case",
    "strip_accents",
)
FLAG = "--allow_changed_settings"
# Default values of the keys of `objective_hparams` and `masking_hparams`, which are compared as
# if all were given; see `electra_tf.pretraining_objective.Objective.key_defaults`.
KeyDefaults = Mapping[str, Mapping[str, Any]]


def check_allowed_names(config: PretrainingConfig) -> None:
    """Raises UserError if `allow_changed_settings` names something that is not a setting."""
    known = (*influences(PretrainingConfig), *_RECORDED)
    for name in config.allow_changed_settings:
        if name not in known:
            hint = nearest_name_hint(name, known)
            raise UserError(f"{FLAG}: unknown setting {name!r}.{hint}")


def changes_of_resumed_run(
    config: PretrainingConfig,
    settings: Mapping[str, Any],
    key_defaults: KeyDefaults | None = None,
) -> list[Change]:
    """Returns how settings differ from those recorded in `model_dir`.

    Args:
        config: configuration of the resumed run.
        settings: its hyperparameters, and other settings that `config.json` records.
        key_defaults: see `KeyDefaults`.

    Raises:
        UserError: a change that is not allowed influences the training, or there is no record
            to compare with.
    """
    saved = load_saved_config(config.model_dir)
    if saved is None:
        raise UserError(missing_record(config.model_dir))
    # Records of versions before `--word_list` lack the entry.
    recorded = {WORDS: None, **saved.hyperparameters}
    changes = changed_settings(PretrainingConfig, recorded, settings, key_defaults)
    _refuse_other_optimizer(changes)  # also for a converted model with moments
    changes = [
        change._replace(influence=EVALUATION) if change.name == HELD_OUT else change
        for change in _recorded_changes(changes, recorded)
    ]
    refused = [
        change
        for change in changes
        if change.influence == TRAINING and change.name not in config.allow_changed_settings
    ]
    if refused:
        names = ",".join((*config.allow_changed_settings, *(each.name for each in refused)))
        raise UserError(
            f"{config.model_dir} has a checkpoint trained with different settings (see its "
            f"{CONFIG_FILE}). Restore them, pass another --model_name, or accept the changes "
            f"with {FLAG}={names}. Changed:\n  "
            + "\n  ".join(change.describe() for change in refused)
        )
    return changes


def _recorded_changes(changes: list[Change], recorded: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of settings that were really recorded.

    A converted model records only settings of the model; all others are defaults.
    """
    if not is_converted(recorded):
        return changes
    return [change for change in changes if change.name in _MODEL_SETTINGS]


def _refuse_other_optimizer(changes: Sequence[Change]) -> None:
    """Raises UserError if the optimizer in a checkpoint is not the one of the run."""
    for change in changes:
        scaled = "mixed_float16" in (change.recorded, change.given)
        if change.name == "optimizer" or (change.name == "precision" and scaled):
            raise UserError(
                f"The checkpoint has no state of this optimizer ({change.describe()}): "
                "restore the setting, or start a new run (another --model_name) from its "
                "weights with --init_checkpoint"
            )


def missing_record(model_dir: str) -> str:
    """Returns the message for a folder whose checkpoints have no record of their settings."""
    return (
        f"{model_dir} has checkpoints but no {CONFIG_FILE}, which records their settings: "
        "restore it from a copy, or pass another --model_name"
    )


def check_recorded_model(config: PretrainingConfig, *, shapes: bool = False) -> None:
    """Raises UserError unless a saved model computes what the configuration describes.

    Args:
        config: configuration of the model.
        shapes: also compare sizes, which loading the variables would compare later.
    """
    sizes = [each.name for each in dataclasses.fields(EncoderConfig) if each.type is int]
    names = (*NOT_IN_SHAPES, *sizes) if shapes else NOT_IN_SHAPES
    changes = _changes_from_saved(config, names)
    if changes:
        raise UserError(
            f"The model in {config.model_dir} differs from the configured one: "
            f"{'; '.join(changes)}. Pass the flags of its run, such as --model_size, "
            f"--vocab_size and --model_hparam_overrides, as in its {CONFIG_FILE}"
        )


def check_recorded_replacements(
    config: PretrainingConfig, flag: str, key_defaults: KeyDefaults | None = None
) -> None:
    """Raises UserError if a saved discriminator was trained on other replacements.

    Args:
        config: configuration of the model.
        flag: flag that needs the settings, for the error.
        key_defaults: see `KeyDefaults`.
    """
    changes = _changes_from_saved(config, _REPLACEMENT_SETTINGS, key_defaults=key_defaults)
    if changes:
        raise UserError(
            f"{flag} needs the settings that the model in {config.model_dir} was trained with, "
            f"but these differ: {'; '.join(changes)}. Pass the flags of its run"
        )


def changed_metrics(
    config: PretrainingConfig, words: str | None, key_defaults: KeyDefaults | None = None
) -> list[str]:
    """Returns how the settings of an evaluation differ from those of the run in `model_dir`.

    If they do, metrics cannot be compared: a higher masking rate is a harder task.

    Args:
        config: configuration of the evaluation.
        words: digest of its word list; None without one.
        key_defaults: see `KeyDefaults`.
    """
    return _changes_from_saved(config, _METRIC_SETTINGS, {WORDS: words}, key_defaults)


def _changes_from_saved(
    config: PretrainingConfig,
    names: Collection[str],
    more: Mapping[str, Any] | None = None,
    key_defaults: KeyDefaults | None = None,
) -> list[str]:
    """Returns how settings differ from those of the model in `model_dir`; none without one.

    Args:
        config: configuration of the run.
        names: settings to compare.
        more: settings that are not fields of the configuration.
        key_defaults: see `KeyDefaults`.
    """
    saved = load_saved_config(config.model_dir)
    if saved is None:
        return []
    given = {**dataclasses.asdict(config), **(more or {})}
    recorded = saved.hyperparameters
    changes = changed_settings(PretrainingConfig, recorded, given, key_defaults)
    changes = _recorded_changes(changes, recorded)
    return [change.describe() for change in changes if change.name in names]


def unrecorded_settings(config: PretrainingConfig) -> list[str]:
    """Returns a line about settings that `model_dir` does not record, if any."""
    saved = load_saved_config(config.model_dir)
    recorded = saved.hyperparameters if saved else {}
    if is_converted(recorded):
        return [f"{CONFIG_FILE}, of a converted model, does not record how it was trained"]
    names = [name for name in (DATA, VOCABULARY) if name not in recorded]
    if not names:
        return []
    return [
        f"{CONFIG_FILE}, written by an older version, does not record {', '.join(names)}: "
        "assumed unchanged"
    ]


def warn_of_changed_held_out(changes: Sequence[Change], step: int) -> None:
    """Warns if the held-out records differ from those of the evaluations up to `step`."""
    if HELD_OUT in {change.name for change in changes}:
        warn_once(
            f"the held-out records are not those that the run was evaluated on up to step "
            f"{step}: its metrics of --eval_tfrecords before and after cannot be compared"
        )


def describe_changes(changes: Sequence[Change]) -> list[str]:
    """Returns one line per change of a resumed run."""
    return [
        f"Changed: {change.describe()} "
        + ("(allowed)" if change.influence == TRAINING else "(does not affect training)")
        for change in changes
    ]
