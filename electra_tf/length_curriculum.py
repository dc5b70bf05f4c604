"""The lengths of a run: a curriculum of shorter ones, then `max_seq_length`."""

import dataclasses
import os

from electra_tf.config import PretrainingConfig, max_predictions
from electra_tf.util.errors import UserError

LENGTH_PLACEHOLDER = "{length}"


def steps_by_length(config: PretrainingConfig) -> dict[int, int]:
    """Returns the number of updates at each length, in their order.

    The shorter lengths of `length_curriculum` share `length_curriculum_share` of the steps
    evenly; `max_seq_length` has the rest.

    Raises:
        UserError: a length is left without a step.
    """
    lengths = (*config.length_curriculum, config.max_seq_length)
    shorter = len(config.length_curriculum)
    short = round(config.length_curriculum_share * config.num_train_steps) if shorter else 0
    ends = [short * (i + 1) // shorter for i in range(shorter)] + [config.num_train_steps]
    starts = [0, *ends[:-1]]
    if any(start >= end for start, end in zip(starts, ends, strict=True)):
        raise UserError(
            f"--length_curriculum_share={config.length_curriculum_share} of --num_train_steps="
            f"{config.num_train_steps} leaves one of the lengths "
            f"{', '.join(map(str, lengths))} without a step"
        )
    return {
        length: end - start for length, start, end in zip(lengths, starts, ends, strict=True)
    }


def configs_by_length(config: PretrainingConfig) -> list[tuple[float, PretrainingConfig]]:
    """Returns the share of the steps that each length has, and a run of it alone.

    Raises:
        UserError: a length is left without a step.
    """
    return [
        (
            steps / config.num_train_steps,
            dataclasses.replace(
                config,
                length_curriculum=(),
                max_seq_length=length,
                max_predictions_per_seq=max_predictions(config, length),
            ),
        )
        for length, steps in steps_by_length(config).items()
    ]


def records_of_length(config: PretrainingConfig, seq_length: int) -> str:
    """Returns the patterns of the records of a length of the curriculum.

    Raises:
        UserError: `pretrain_tfrecords` is given, and does not say where they are.
    """
    patterns = config.pretrain_tfrecords
    if LENGTH_PLACEHOLDER in patterns:
        return patterns.replace(LENGTH_PLACEHOLDER, str(seq_length))
    if seq_length == config.max_seq_length:
        return patterns
    folder, name = os.path.split(patterns)
    if folder != os.path.join(config.data_dir, "pretrain_tfrecords"):
        raise UserError(
            f"--pretrain_tfrecords={patterns} does not say where the records of "
            f"{seq_length} tokens of --length_curriculum are: write {LENGTH_PLACEHOLDER} in "
            "place of the length"
        )
    return os.path.join(f"{folder}_{seq_length}", name)
