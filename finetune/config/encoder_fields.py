"""Hyperparameters of the pre-trained encoder in fine-tuning.

No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.config.hyperparameters import hyperparameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderFields:
    """What is trained of the encoder."""

    freeze_layers: int = hyperparameter(
        0,
        "Lowest encoder layers to leave as they are in the checkpoint, with the embeddings "
        "below them.",
    )
    freeze_embeddings: bool = hyperparameter(
        False, "Leave the embeddings as they are in the checkpoint."
    )
