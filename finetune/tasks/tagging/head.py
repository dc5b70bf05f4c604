"""The tagging head: a softmax over tags at the first piece of each word."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf.model.positions import gather_positions
from finetune.model import Dense, HeadOutput, TaskHead


class TaggingHead(TaskHead):
    """One `Dense` on the encoder's output at the first piece of each word; no dropout.

    Args:
        hidden_size: hidden size of the encoder.
        num_labels: number of tags.
        dtype: dtype policy of the model; the head computes in float32 regardless.
        name: name of the task.
    """

    def __init__(
        self, hidden_size: int, num_labels: int, dtype: keras.DTypePolicy, name: str
    ) -> None:
        super().__init__(autocast=False, dtype=dtype, name=name)
        with keras.name_scope(self.name):
            self.dense = Dense(hidden_size, num_labels, dtype=dtype, name="dense")
        self.built = True

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" [batch, seq, tags] and "predictions" int32 [batch, seq].

        Entry i of the seq axis is word i. The loss of a row is the sum over its words.
        """
        del dropout_key, is_training
        positions = features[f"{self.name}_labeled_positions"]
        logits = self.dense(gather_positions(sequence_output, positions))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features[f"{self.name}_labels"], logits
        )
        losses = tf.reduce_sum(losses * features[f"{self.name}_labels_mask"], axis=-1)
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})
