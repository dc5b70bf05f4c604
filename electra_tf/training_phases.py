"""What a run does when: the stages of its objective, and the lengths of its curriculum."""

import dataclasses
from collections.abc import Sequence

from electra_tf.config import PretrainingConfig
from electra_tf.length_curriculum import records_of_length, steps_by_length
from electra_tf.objective import Stage


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps of one stage at one length.

    Attributes:
        first_step, end_step: updates done before and after it.
        stage: index of the objective's stage.
        starts_stage: it is the stage's first phase.
        seq_length: tokens a sequence.
        length_first_step: updates done before the run came to this length; where its
            records are read from the start.
        tfrecords: patterns of the records of this length.
    """

    first_step: int
    end_step: int
    stage: int
    starts_stage: bool
    seq_length: int
    length_first_step: int
    tfrecords: str


def training_phases(config: PretrainingConfig, stages: Sequence[Stage]) -> list[Phase]:
    """Returns the phases of a run in their order.

    Raises:
        UserError: a length is left without a step.
    """
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
                tfrecords=records_of_length(config, lengths[index]),
            )
        )
        start = end
    return phases


def _ends(counts: Sequence[int]) -> list[int]:
    return [sum(counts[: i + 1]) for i in range(len(counts))]
