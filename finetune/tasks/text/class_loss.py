"""The training loss of classification: label smoothing, focal loss and class weights."""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ClassLoss:
    """The loss of a row whose class y is predicted with the probability p_y:

        w (1 - p_y)^gamma * -sum_k q_k log p_k

    q is one-hot at y; label smoothing (Szegedy et al. 2016, section 7) replaces it by
    (1 - smoothing) q + smoothing / classes. The factor with gamma is that of the focal loss
    (Lin et al. 2017, equation 4). w is the weight of the row.

    Attributes:
        smoothing: in [0, 1).
        gamma: at least 0; 0 is cross-entropy.
    """

    smoothing: float = 0.0
    gamma: float = 0.0

    def losses(
        self,
        logits: tf.Tensor,
        label_ids: tf.Tensor,
        weights: tf.Tensor | None = None,
        is_class: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns the loss of each row, float32 [batch].

        Args:
            logits: float32 [batch, classes].
            label_ids: int32 [batch].
            weights: float32 [batch]; None weighs all rows alike.
            is_class: bool [batch, classes], the classes that each row has, at least one; all
                others must have the lowest float32 as logit. None means all classes.
        """
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label_ids, logits)
        if self.smoothing > 0:
            log_probabilities = tf.nn.log_softmax(logits)
            if is_class is None:
                uniform = -tf.reduce_mean(log_probabilities, axis=-1)
            else:
                total = tf.reduce_sum(tf.where(is_class, log_probabilities, 0.0), axis=-1)
                uniform = -total / tf.reduce_sum(tf.cast(is_class, tf.float32), axis=-1)
            losses = (1 - self.smoothing) * losses + self.smoothing * uniform
        if self.gamma > 0:
            losses *= tf.exp(self.gamma * _log_of_other_classes(logits, label_ids))
        return losses if weights is None else losses * weights


CROSS_ENTROPY = ClassLoss()


def _log_of_other_classes(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
    """Returns log(1 - p_y), float32 [batch].

    Computed as a difference of log-sums, it has finite gradients even if p_y rounds to 1.
    """
    is_label = tf.one_hot(label_ids, tf.shape(logits)[-1], on_value=True, off_value=False)
    others = tf.where(is_label, logits.dtype.min, logits)
    return tf.reduce_logsumexp(others, axis=-1) - tf.reduce_logsumexp(logits, axis=-1)
