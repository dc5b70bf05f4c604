"""The question-answering head: start and end of the answer, and answerability."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf.model.kernels import fused
from electra_tf.model.layer_functions import bias_activation, gelu
from finetune.data.features import INPUT_MASK, SEGMENT_IDS
from finetune.model import Dense, HeadOutput, TaskHead

HIDDEN_UNITS = 512
# Subtracted from the logits of invalid positions, as in the authors' code.
_MASKED_LOGIT = 1000.0


class QAHead(TaskHead):
    """Scores of start and end positions, and of unanswerable questions.

    With `joint_prediction`, the end is predicted given the start (Clark et al. 2020, section
    3.1, following XLNet): the gold start for the loss, and the `beam_size` most likely starts
    for prediction. Outputs: float32 `answerable_logit` [batch] (log odds of having no
    answer), `start_logits` [batch, seq], and

    - `end_logits` [batch, seq], without `joint_prediction` or in training;
    - otherwise `start_top_log_probs` float32 and `start_top_index` int32 [batch, beam], and
      for the ends of each start `end_top_log_probs` and `end_top_index`
      [batch, beam, beam]. The beam is limited by the sequence length.

    Args:
        hidden_size: hidden size of the encoder.
        joint_prediction: predict the end given the start; otherwise independently.
        answerable_classifier: predict whether there is an answer.
        answerable_uses_start_logits: feed it the state at the predicted start.
        answerable_weight: weight of its loss.
        beam_size: beam size of starts, and of ends for each start.
        name: name of the task.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        joint_prediction: bool = True,
        answerable_classifier: bool = True,
        answerable_uses_start_logits: bool = True,
        answerable_weight: float = 0.5,
        beam_size: int = 20,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.joint_prediction = joint_prediction
        self.answerable_classifier = answerable_classifier
        self.answerable_weight = answerable_weight
        self.beam_size = beam_size
        self.end_hidden = self.answerable_hidden = self.answerable = None

        def dense(input_size: int, units: int, name: str) -> Dense:
            return Dense(input_size, units, dtype=self.dtype_policy, name=name)

        # Names of the authors' layers in TensorFlow 1.
        with keras.name_scope(self.name):
            self.start = dense(hidden_size, 1, "dense")
            if joint_prediction:
                self.end_hidden = dense(2 * hidden_size, HIDDEN_UNITS, "qa_hidden")
            self.end = dense(HIDDEN_UNITS if joint_prediction else hidden_size, 1, "dense_1")
            if answerable_classifier and answerable_uses_start_logits:
                self.answerable_hidden = dense(2 * hidden_size, HIDDEN_UNITS, "dense_2")
                self.answerable = dense(HIDDEN_UNITS, 1, "dense_3")
            elif answerable_classifier:
                self.answerable = dense(hidden_size, 1, "dense_2")
        self.built = True

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns losses and outputs, as described by the class; without dropout.

        In evaluation, too, the losses use the gold positions of the features.
        """
        del dropout_key
        hidden = tf.cast(sequence_output, tf.float32)  # (batch, seq, hidden)
        mask = _MASKED_LOGIT * (answer_mask(features) - 1)  # (batch, seq)
        start_positions = features[f"{self.name}_start_positions"]
        end_positions = features[f"{self.name}_end_positions"]
        is_impossible = tf.cast(features[f"{self.name}_is_impossible"], tf.float32)

        start_logits = _logits(self.start, hidden) + mask
        outputs = {"start_logits": start_logits}
        if self.joint_prediction:
            # The kernel for [start state; end state] is split, so each state is multiplied
            # only once.
            start_kernel, end_kernel = tf.split(tf.convert_to_tensor(self.end_hidden.kernel), 2)
            end_part = self._product(sequence_output, end_kernel)  # (batch, seq, units)
            gold_start = tf.gather(sequence_output, start_positions, batch_dims=1)
            start_part = self._product(gold_start, start_kernel)  # (batch, units)
            end_hidden = bias_activation(
                end_part + start_part[:, None], self.end_hidden.bias, activation="gelu"
            )
            end_logits = _logits(self.end, end_hidden) + mask
            if not is_training:
                outputs |= self._beams(
                    sequence_output, start_logits, start_kernel, end_part, mask
                )
        else:
            end_logits = _logits(self.end, hidden) + mask
        if is_training or not self.joint_prediction:
            outputs["end_logits"] = end_logits

        losses = 0.5 * (
            tf.nn.sparse_softmax_cross_entropy_with_logits(start_positions, start_logits)
            + tf.nn.sparse_softmax_cross_entropy_with_logits(end_positions, end_logits)
        )
        # Not derived from the shape of the losses, so that exports can prune their computation.
        outputs["answerable_logit"] = tf.zeros_like(start_logits[:, 0])
        if self.answerable_classifier:
            outputs["answerable_logit"] = self._answerable_logit(hidden, start_logits)
            losses += self.answerable_weight * tf.nn.sigmoid_cross_entropy_with_logits(
                labels=is_impossible, logits=outputs["answerable_logit"]
            )
        return HeadOutput(losses, outputs)

    def _product(self, x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        kernel = tf.cast(kernel, self.compute_dtype)
        return tf.linalg.matmul(tf.cast(x, self.compute_dtype), kernel)

    def _beams(
        self,
        sequence_output: tf.Tensor,
        start_logits: tf.Tensor,
        start_kernel: tf.Tensor,
        end_part: tf.Tensor,
        mask: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        length = start_logits.shape[1] or tf.shape(start_logits)[1]
        beam = tf.minimum(self.beam_size, length)
        start_log_probs, start_index = tf.math.top_k(tf.nn.log_softmax(start_logits), beam)
        starts = tf.gather(sequence_output, start_index, batch_dims=1)  # (batch, beam, hidden)
        start_part = self._product(starts, start_kernel)  # (batch, beam, units)
        end_logits = conditional_logits(
            start_part, end_part, self.end_hidden.bias, self.end.kernel[:, 0], self.end.bias
        )
        end_log_probs, end_index = tf.math.top_k(
            tf.nn.log_softmax(end_logits + mask[:, None]), beam
        )  # (batch, beam, beam)
        return {
            "start_top_log_probs": start_log_probs,
            "start_top_index": start_index,
            "end_top_log_probs": end_log_probs,
            "end_top_index": end_index,
        }

    def _answerable_logit(self, hidden: tf.Tensor, start_logits: tf.Tensor) -> tf.Tensor:
        x = hidden[:, 0]
        if self.answerable_hidden is not None:
            probs = tf.nn.softmax(start_logits)
            expected_start = tf.einsum("bl,blh->bh", probs, hidden)
            x = tf.concat([x, expected_start], axis=-1)
            x = bias_activation(
                self._product(x, self.answerable_hidden.kernel),
                self.answerable_hidden.bias,
                activation="gelu",
            )
        return _logits(self.answerable, x)


def _logits(layer: Dense, x: tf.Tensor) -> tf.Tensor:
    """Returns the float32 outputs [...] of a layer of one unit, of `x` [..., in]."""
    return tf.squeeze(layer(x), axis=-1)


def answer_mask(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns float32 [batch, seq], 1 for the context, its [SEP] and [CLS]."""
    mask = tf.cast(features[INPUT_MASK] * features[SEGMENT_IDS], tf.float32)
    return mask + tf.one_hot(0, tf.shape(mask)[1])


@fused()
def conditional_logits(
    start_part: tf.Tensor,
    end_part: tf.Tensor,
    hidden_bias: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
) -> tf.Tensor:
    """Returns the float32 logits [batch, beam, seq] of the ends for each start.

    Args:
        start_part: [batch, beam, units], contribution of the start to the hidden layer.
        end_part: [batch, seq, units], contribution of the end.
        hidden_bias: float32 [units], bias of the hidden layer.
        kernel, bias: float32 [units] and [1], of the output layer.
    """
    end_part = tf.cast(end_part, tf.float32)[:, None] + hidden_bias
    hidden = gelu(end_part + tf.cast(start_part, tf.float32)[:, :, None])
    return tf.reduce_sum(hidden * kernel, axis=-1) + bias
