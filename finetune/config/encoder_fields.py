"""Hyperparameters of the pre-trained encoder in fine-tuning.

No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.config.hyperparameters import hyperparameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderFields:
    """Which layers of the encoder are frozen, and whether its positions are interpolated."""

    freeze_layers: int = hyperparameter(
        0,
        "Number of encoder layers to freeze, counted from the lowest, together with the "
        "embeddings.",
    )
    freeze_embeddings: bool = hyperparameter(False, "Freeze the embeddings.")
    interpolate_positions: bool = hyperparameter(
        False,
        "If --max_seq_length exceeds the position embeddings of the checkpoint, interpolate "
        "them linearly to that length.",
    )

    @property
    def num_frozen_layers(self) -> int | None:
        """Number of lowest layers frozen with the embeddings; None if nothing is frozen."""
        frozen = self.freeze_embeddings or self.freeze_layers
        return self.freeze_layers if frozen else None
