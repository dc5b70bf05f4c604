"""Messages and warnings of a pre-training run before its first step."""

import dataclasses
from collections.abc import Callable, Sequence

from electra_tf.config.distribution import warn_of_repeated_examples
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.phases import Stage, training_phases
from electra_tf.config.pretraining import (
    PretrainingConfig,
    default_max_predictions,
    steps_by_length,
)
from electra_tf.config.recorded_settings import Change
from electra_tf.config.resumption import DATA
from electra_tf.config.saved_config import load_saved_config
from electra_tf.flops.counting import train_flops_per_step
from electra_tf.pretraining.records import PretrainingRecords
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.pretraining_optimizer import schedule_of
from electra_tf.text.framing import NUM_SEGMENTS
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.bfloat16 import warn_of_emulated_bfloat16
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    describe_devices,
)
from electra_tf.util.console import warn_once

# Settings that, with the step, determine the position in the records.
_POSITION_SETTINGS = (
    TRAIN_BATCH_SIZE,
    "length_curriculum",
    "length_curriculum_share",
    "max_seq_length",
    "num_train_steps",
)


def describe_run(
    config: PretrainingConfig,
    model: PretrainingModel,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    eval_records: PretrainingRecords | None,
    context: DistributionContext,
    print_fn: Callable[[str], None],
) -> None:
    """Prints the model, the devices, the data and the phases of a run."""
    encoder = model.encoder_config
    print_fn(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{model.electra.count_params():,} parameters in the encoder, "
        f"{model.count_params():,} trained, {config.precision}"
    )
    for line in describe_devices(
        config,
        context,
        config.train_batch_size,
        config.precision,
        train_flops_per_step(config),
    ):
        print_fn(line)
    stages = model.stages()
    phases = training_phases(config, stages)
    for length in dict.fromkeys(phase.seq_length for phase in phases):
        print_fn(
            f"Data:    {records.describe(length)}, {vocabulary.num_tokens:,} tokens in the "
            f"vocabulary, {config.train_batch_size} x {length} tokens per step"
        )
        examples = records.num_examples(length)
        if examples is not None and context.workers.is_chief:
            warn_of_repeated_examples(config.train_batch_size, examples)
    if eval_records is not None:
        print_fn(f"Eval:    {describe_held_out(config, eval_records)}")
    if len(phases) > 1:
        for phase in phases:
            print_fn(
                f"Phase:   {stages[phase.stage].name}, {phase.seq_length} tokens, steps "
                f"{phase.first_step + 1} to {phase.end_step}"
            )
    if context.workers.is_chief:
        warn_of_emulated_bfloat16(config.precision)
        _warn_of_long_warmup(config, stages)
        _warn_of_few_predictions(config)
        _warn_of_one_segment(encoder)
        _warn_of_zero_weights(config, encoder)
    print_fn(f"Output:  {config.model_dir}")


def describe_moved_position(
    config: PretrainingConfig,
    stages: Sequence[Stage],
    changes: Sequence[Change],
    step: int,
    records: PretrainingRecords,
) -> list[str]:
    """Returns a line about examples that changed settings skip or repeat, if any.

    The position in the records is the number of steps at their length times the batch size.
    The steps at a length depend on the total number of steps and on the curriculum.

    Args:
        config: configuration of the resumed run.
        stages: stages of its objective.
        changes: changes of its settings.
        step: step that it resumes from.
        records: training records.
    """
    recorded = {each.name: each.recorded for each in changes if each.name in _POSITION_SETTINGS}
    phase = next((p for p in training_phases(config, stages) if step < p.end_step), None)
    if phase is None:
        return []
    if any(each.name == DATA for each in changes):
        position = _steps_at(config, phase.seq_length, step) * config.train_batch_size
        return [
            f"Data:    the records have changed; reading starts after example {position:,} of "
            f"{phase.seq_length} tokens, as if the examples up to it had been read"
        ] * (position > 0)
    if not recorded:
        return []
    before = dataclasses.replace(config, **recorded)
    steps, read = (_steps_at(each, phase.seq_length, step) for each in (config, before))
    position = steps * config.train_batch_size
    read_examples = read * before.train_batch_size
    moved = position - read_examples
    if not moved:
        return []
    examples = f"{abs(moved):,} examples"
    if total := records.num_examples(phase.seq_length):
        examples += f" ({abs(moved) / total:.2g} epochs of {total:,})"
    effect = "are skipped" if moved > 0 else "are trained on again"
    return [
        f"Data:    continues after example {position:,} of {phase.seq_length} tokens ({steps:,}"
        f" steps of {config.train_batch_size}); {read:,} steps of {before.train_batch_size} "
        f"have read {read_examples:,}, so {examples} {effect}"
    ]


def _steps_at(config: PretrainingConfig, seq_length: int, step: int) -> int:
    """Returns how many of the first `step` steps of a run are at a sequence length."""
    start = 0
    for length, count in steps_by_length(config).items():
        if length == seq_length:
            return min(max(0, step - start), count)
        start += count
    return 0


def describe_held_out(config: PretrainingConfig, records: PretrainingRecords) -> str:
    """Describes the records of an evaluation, and how many of their examples it uses."""
    described = records.describe(config.max_seq_length)
    total = records.num_examples(config.max_seq_length)
    most = config.num_eval_steps * config.eval_batch_size
    if total is None:
        return described
    if total <= most:
        return f"{described}, {total:,} examples"
    return (
        f"{described}, the first {most:,} of {total:,} examples "
        f"(--num_eval_steps={config.num_eval_steps})"
    )


def warn_of_training_records(config: PretrainingConfig, records: PretrainingRecords) -> None:
    """Warns of an evaluation on exactly the records that the model was trained on."""
    saved = load_saved_config(config.model_dir)
    trained_on = saved.hyperparameters.get(DATA) if saved else None
    if isinstance(trained_on, dict):
        length = config.max_seq_length
        if trained_on.get(str(length)) == records.fingerprint(length):
            warn_once(
                "the model was trained on these records, so the metrics say little about new "
                "text: pass held-out records as --eval_tfrecords"
            )


def _warn_of_one_segment(encoder: EncoderConfig) -> None:
    """Warns of a model without an embedding for the second segment of a record."""
    if encoder.type_vocab_size < NUM_SEGMENTS:
        warn_once(
            f"type_vocab_size={encoder.type_vocab_size} in --model_hparam_overrides: records "
            f"have {NUM_SEGMENTS} segments, and tokens of the second one get no segment "
            "embedding"
        )


def _warn_of_zero_weights(config: PretrainingConfig, encoder: EncoderConfig) -> None:
    """Warns of weights that all start at 0, where few have a gradient."""
    if not encoder.initializer_range and not config.init_checkpoint:
        warn_once(
            "initializer_range=0 in --model_hparam_overrides: all weights start at 0, where "
            "only biases have gradients, so no more than token frequencies is learned"
        )


def _warn_of_few_predictions(config: PretrainingConfig) -> None:
    """Warns of a limit of masked tokens that is below the masking rate."""
    name = "mask_prob"
    if (config.mask_prob_end or 0.0) > config.mask_prob:
        name = "mask_prob_end"
    rate, limit = getattr(config, name), config.max_predictions_per_seq
    if limit < default_max_predictions(rate, config.max_seq_length):
        warn_once(
            f"--max_predictions_per_seq={limit} masks at most {limit} of "
            f"{config.max_seq_length} tokens ({limit / config.max_seq_length:.0%}), fewer than "
            f"--{name}={rate:g}"
        )


def _warn_of_long_warmup(config: PretrainingConfig, stages: Sequence[Stage]) -> None:
    """Warns of a stage whose learning rate does not rise to half of the given one."""
    schedules = [schedule_of(config, stage) for stage in stages]
    peak = min(schedule.peak for schedule in schedules)
    if peak < config.learning_rate / 2:
        steps = min(stage.num_steps for stage in stages)
        warn_once(
            f"the learning rate peaks at {peak:.2g}, below --learning_rate="
            f"{config.learning_rate:g}: --num_warmup_steps={config.num_warmup_steps} is too "
            f"long for {steps} training steps"
        )
