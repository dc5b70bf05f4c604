"""Phases of a run: the stages of the objective and the lengths of a curriculum."""

import dataclasses
import os
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.config.pretraining import (
    PretrainingConfig,
    max_predictions,
    steps_by_length,
)
from electra_tf.util.errors import UserError

LENGTH_PLACEHOLDER = "{length}"


class Stage(NamedTuple):
    """A stage of the objective: its name and its number of steps."""

    name: str
    num_steps: int


def configs_by_length(config: PretrainingConfig) -> list[tuple[float, PretrainingConfig]]:
    """Returns the fraction of steps at each length, with the configuration of that length."""
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
    """Returns the file patterns of the records of one length of the curriculum.

    Raises:
        UserError: `pretrain_tfrecords` is given without the `{length}` placeholder.
    """
    patterns = config.pretrain_tfrecords
    if LENGTH_PLACEHOLDER in patterns:
        return patterns.replace(LENGTH_PLACEHOLDER, str(seq_length))
    if seq_length == config.max_seq_length:
        return patterns
    folder, name = os.path.split(patterns)
    if folder != os.path.join(config.data_dir, "pretrain_tfrecords"):
        raise UserError(
            f"--pretrain_tfrecords={patterns} does not say where the records of {seq_length} "
            f"tokens are, which --length_curriculum needs: put {LENGTH_PLACEHOLDER} in the path"
        )
    return os.path.join(f"{folder}_{seq_length}", name)


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps of one stage at one length.

    Attributes:
        first_step, end_step: global step before and after the phase.
        stage: index of the objective's stage.
        starts_stage: whether this is the first phase of the stage.
        seq_length: sequence length, in tokens.
        length_first_step: global step at which training at this length began; its records
            are read from the start there.
    """

    first_step: int
    end_step: int
    stage: int
    starts_stage: bool
    seq_length: int
    length_first_step: int


def training_phases(config: PretrainingConfig, stages: Sequence[Stage]) -> list[Phase]:
    """Returns the phases of a run, in order."""
    stage_ends = _ends([stage.num_steps for stage in stages])
    steps = steps_by_length(config)
    lengths, length_ends = list(steps), _ends(list(steps.values()))
    length_starts = [0, *length_ends[:-1]]
    phases: list[Phase] = []
    start = 0
    for end in sorted({*stage_ends, *length_ends}):
        stage = next(i for i, stage_end in enumerate(stage_ends) if start < stage_end)
        index = next(i for i, length_end in enumerate(length_ends) if start < length_end)
        phases.append(
            Phase(
                first_step=start,
                end_step=end,
                stage=stage,
                starts_stage=start == (0, *stage_ends)[stage],
                seq_length=lengths[index],
                length_first_step=length_starts[index],
            )
        )
        start = end
    return phases


def _ends(counts: Sequence[int]) -> list[int]:
    return [sum(counts[: i + 1]) for i in range(len(counts))]
