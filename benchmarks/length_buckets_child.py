"""What a child of `length_buckets` does: it trains on the batches of one setting when asked."""

import dataclasses
import json
import sys

import numpy as np

from finetune.config.finetuning import FinetuningConfig


@dataclasses.dataclass(frozen=True)
class Start:
    """What a child says when it has compiled.

    Attributes:
        num_train_steps: of the whole run.
        padding: share of the plan's tokens that is padding.
        lengths: steps of the plan by length.
        first_pass, second_pass: seconds of one step of each length, done twice.
    """

    num_train_steps: int
    padding: float
    lengths: dict[str, int]
    first_pass: float
    second_pass: float

    @property
    def compilation(self) -> float:
        """Seconds that tracing and compiling took."""
        return max(0.0, self.first_pass - self.second_pass)


def serve(config_json: str, num_steps: str) -> None:
    """Is one of our children: says how it started, then runs the steps for each line."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from benchmarks.planned_training import PlannedTraining

    # Standard output is for answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    training = PlannedTraining(FinetuningConfig(**json.loads(config_json)))
    planned = training.plan.lengths
    lengths, one_of_each, counts = np.unique(planned, return_index=True, return_counts=True)
    start = Start(
        num_train_steps=len(planned),
        padding=training.padding_share,
        lengths=dict(zip(map(str, lengths), counts.tolist(), strict=True)),
        first_pass=training.run(one_of_each),
        second_pass=training.run(one_of_each),
    )
    print(json.dumps(dataclasses.asdict(start)), file=answers, flush=True)
    sample = sampled_steps(planned, int(num_steps))
    for _ in sys.stdin:
        print(json.dumps(training.run(sample)), file=answers, flush=True)


def sampled_steps(lengths: np.ndarray, num_steps: int) -> np.ndarray:
    """Returns indices of `num_steps` steps that have the plan's mix of lengths.

    They are evenly spaced in order of length, and returned in the order of the plan. A plan
    that has fewer steps has some of them taken again.

    Args:
        lengths: int [steps], of each batch of the plan.
        num_steps: how many to take.
    """
    by_length = np.argsort(lengths, kind="stable")
    places = (np.arange(num_steps) + 0.5) * len(lengths) / num_steps
    return np.sort(by_length[places.astype(np.int64)])
