"""The encoders that one training step runs, for counting FLOPs."""

import dataclasses

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config


@dataclasses.dataclass(frozen=True)
class ModelPart:
    """One encoder with its heads, in one pass over the batch.

    Attributes:
        name: such as "generator".
        encoder: shape of the encoder.
        vocabulary_positions: positions per sequence with a softmax over the vocabulary.
        vocabulary_inputs: input width of the softmax; None means the hidden size.
        boundary_inputs: input width of a span-boundary head, which has a softmax at the same
            positions; 0 means no such head.
        binary_positions: positions per sequence with a binary prediction.
        is_trained: whether it has a backward pass.
        stage: index of the training stage that runs it; None means every stage.
        samples: tokens sampled per sequence to build its input.
    """

    name: str
    encoder: EncoderConfig
    vocabulary_positions: int = 0
    vocabulary_inputs: int | None = None
    boundary_inputs: int = 0
    binary_positions: int = 0
    is_trained: bool = True
    stage: int | None = None
    samples: int = 0


def discriminator_part(config: PretrainingConfig) -> ModelPart:
    """Returns the discriminator, which classifies every token as original or replaced."""
    return ModelPart(
        "discriminator",
        discriminator_config(config),
        binary_positions=config.max_seq_length,
        samples=config.max_predictions_per_seq,
    )
