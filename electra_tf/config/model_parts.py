"""The encoders that a training step runs, for counting its FLOPs."""

import dataclasses

from electra_tf.config.choices import MASKED_LM, TWO_TOWER
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)


@dataclasses.dataclass(frozen=True)
class ModelPart:
    """One encoder and the heads on it, in one pass over the batch.

    Attributes:
        name: such as "generator".
        encoder: its shape.
        vocabulary_positions: positions of a sequence at which words are predicted.
        vocabulary_inputs: width of what they are predicted from; the hidden size if None.
        binary_positions: positions at which real and replaced are told apart.
        is_trained: whether gradients flow back through it.
        share_of_steps: of the run in which the part takes part.
        samples: words drawn for a sequence to make what the part sees.
    """

    name: str
    encoder: EncoderConfig
    vocabulary_positions: int = 0
    vocabulary_inputs: int | None = None
    binary_positions: int = 0
    is_trained: bool = True
    share_of_steps: float = 1.0
    samples: int = 0


def generator_parts(config: PretrainingConfig) -> list[ModelPart]:
    """Returns the parts of a generator that is trained, or none."""
    shape = generator_config(config)
    if config.generator_type == TWO_TOWER:
        return [
            ModelPart("left-to-right tower", shape),
            ModelPart(
                "right-to-left tower",
                shape,
                vocabulary_positions=config.max_seq_length,
                vocabulary_inputs=2 * shape.hidden_size,
            ),
        ]
    if config.generator_type == MASKED_LM:
        return [
            ModelPart("generator", shape, vocabulary_positions=config.max_predictions_per_seq)
        ]
    return []


def discriminator_part(config: PretrainingConfig) -> ModelPart:
    """Returns the discriminator that tells of every token whether it was replaced."""
    return ModelPart(
        "discriminator",
        discriminator_config(config),
        binary_positions=config.max_seq_length,
        samples=config.max_predictions_per_seq,
    )
