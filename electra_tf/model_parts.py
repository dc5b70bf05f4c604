"""The parts of a pre-training model that a step runs, for counting FLOPs."""

import dataclasses
import sys

from electra_tf.config import PretrainingConfig
from electra_tf.encoder_config import EncoderConfig
from electra_tf.util.tensorflow_import import import_tensorflow


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


def model_parts(config: PretrainingConfig) -> list[ModelPart]:
    """Returns the parts that a step of a run has, in their order; loads TensorFlow."""
    # Here, so that what counts the FLOPs of published models starts fast; and quietly.
    if "tensorflow" not in sys.modules:
        import_tensorflow()
    from electra_tf.objective import objective_class

    return objective_class(config).parts(config)
