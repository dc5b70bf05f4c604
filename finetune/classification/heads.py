"""Heads on the vector of [CLS]: one class, a number, or any number of labels."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf.interop.variable_names import NamedVariable
from electra_tf.model import randomness
from finetune.dense import Dense
from finetune.task import HeadOutput, TaskHead

# The authors' rate, whatever the encoder's.
DROPOUT_RATE = 0.1


class TextHead(TaskHead):
    """Dropout and one `Dense` on the encoder's output at [CLS].

    Args:
        hidden_size: of the encoder.
        units: outputs of the dense layer.
        dtype: policy of the model; the head computes in float32 all the same.
        name: of the task.
    """

    def __init__(
        self, hidden_size: int, units: int, dtype: keras.DTypePolicy, name: str
    ) -> None:
        super().__init__(autocast=False, dtype=dtype, name=name)
        with keras.name_scope(self.name):
            self.dense = Dense(hidden_size, units, dtype=dtype, name="dense")
        self.built = True

    def tf1_variables(self) -> list[NamedVariable]:
        """Returns the mapping to the variables of the authors' checkpoints."""
        return self.dense.tf1_variables(f"task_specific/{self.name}/dense")

    def _dense_of_cls(
        self, sequence_output: tf.Tensor, dropout_key: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns float32 [batch, units]."""
        x = tf.cast(sequence_output[:, 0], tf.float32)  # (batch, hidden)
        if dropout_key is not None:
            x = randomness.dropout(x, DROPOUT_RATE, dropout_key)
        return self.dense(x)


class ClassificationHead(TextHead):
    """Softmax cross-entropy over classes."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" [batch, classes], "predictions" int32 [batch]."""
        del is_training
        logits = self._dense_of_cls(sequence_output, dropout_key)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features[f"{self.name}_label_ids"], logits
        )
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})


class RegressionHead(TextHead):
    """Squared error against a target in [0, 1]."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "predictions" (in units of the target), float32 [batch]."""
        del is_training
        predictions = tf.squeeze(self._dense_of_cls(sequence_output, dropout_key), axis=-1)
        losses = tf.square(predictions - features[f"{self.name}_targets"])
        return HeadOutput(losses, {"predictions": predictions})


class MultilabelHead(TextHead):
    """A sigmoid for each label; the loss is the sum of their cross-entropies."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" and "predictions" (0 or 1) [batch, labels]."""
        del is_training
        logits = self._dense_of_cls(sequence_output, dropout_key)
        losses = tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(features[f"{self.name}_targets"], logits),
            axis=-1,
        )
        # The sigmoid of a positive logit is above 0.5.
        predictions = tf.cast(logits > 0, tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})
