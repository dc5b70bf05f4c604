"""What is known of a model that was pre-trained for the study."""

import dataclasses
from collections.abc import Mapping

from benchmarks.study.variants import HIDDEN_SIZE

# How starts of fine-tuning are told apart: a name, and a share of the FLOPs.
Start = tuple[str, float]


def random_start(hidden_size: int) -> Start:
    """Returns the start that is fine-tuned without pre-training, of a size."""
    return "random weights" + ("" if hidden_size == HIDDEN_SIZE else f" {hidden_size}"), 0.0


@dataclasses.dataclass(frozen=True)
class Model:
    """A pre-trained variant.

    Attributes:
        name, questions, hidden_size: of the variant.
        seed: of its pre-training.
        steps, flops: of its whole run.
        inference_flops: of one sequence of `INFERENCE_LENGTH` tokens.
        parameters: that were trained.
        encoder_parameters: those that fine-tuning starts from.
        pretraining: metrics on held-out text at the end.
    """

    name: str
    questions: tuple[str, ...]
    hidden_size: int
    seed: int
    steps: int
    flops: float
    inference_flops: float
    parameters: int
    encoder_parameters: int
    pretraining: Mapping[str, float]
