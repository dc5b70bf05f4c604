"""The two-tower generator: each token from what stands left and right of it.

Clark et al. 2020, "Pre-Training Transformers as Energy-Based Cloze Models" (Electric),
section 2.3: one encoder reads from left to right and one from right to left, so that the
probability of every token given all others comes out of one pass over unmasked text.
"""

import dataclasses
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.choices import SHARE_NONE
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.model.batch_types import (
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.embeddings import Embeddings
from electra_tf.model.encoder import LEFT_TO_RIGHT, RIGHT_TO_LEFT, Encoder
from electra_tf.model.heads import MaskedLMHead
from electra_tf.model.randomness import Randomness
from electra_tf.pretrain_helpers import candidates_mask, unmask


class TwoTowerOutput(NamedTuple):
    """Outputs of the towers [batch, seq, hidden], and logits [batch, seq, vocab]."""

    left_to_right: tf.Tensor
    right_to_left: tf.Tensor
    logits: tf.Tensor


class TwoTowerGenerator(keras.layers.Layer):
    """Predicts every token of unmasked text from all others.

    Args:
        config: of the run; both towers have the generator's shape.
        embeddings: the discriminator's, which both towers read unless embedding_sharing is
            none; then each has its own, and the words of the left-to-right tower are those
            of the output layer.
    """

    def __init__(self, config: PretrainingConfig, embeddings: Embeddings, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        shape, dtype = generator_config(config), self.dtype_policy
        shared = None if config.embedding_sharing == SHARE_NONE else embeddings

        def tower(name: str, direction: str) -> Encoder:
            return Encoder(
                shape,
                shared,
                rematerialize=config.rematerialize,
                direction=direction,
                dtype=dtype,
                name=name,
            )

        # Without this layer's own scope: towers and head have the authors' names.
        self.ltr = tower("generator_ltr", LEFT_TO_RIGHT)
        self.rtl = tower("generator_rtl", RIGHT_TO_LEFT)
        both = dataclasses.replace(shape, hidden_size=2 * shape.hidden_size)
        width = self.ltr.embeddings.config.embedding_size
        self.head = MaskedLMHead(both, width, dtype=dtype, name="cloze_predictions")
        self.built = True

    @property
    def word_embeddings(self) -> keras.Variable:
        """float32 [vocab, embedding], the output layer."""
        return self.ltr.embeddings.word_embeddings

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        *,
        randomness: Randomness,
    ) -> TwoTowerOutput:
        """Predicts every token.

        Position t is predicted from the left-to-right output at t - 1 and the right-to-left
        output at t + 1. The first and the last position take theirs from the other end, as
        in the authors' code; they hold special tokens, which are not predicted.

        Args:
            input_ids, input_mask, segment_ids: int32 [batch, seq], nothing masked.
            randomness: of dropout.
        """
        features = (input_ids, input_mask, segment_ids)
        ltr = self.ltr(*features, randomness.dropout_key("generator_dropout")).sequence_output
        rtl = self.rtl(
            *features, randomness.dropout_key("generator_rtl_dropout")
        ).sequence_output
        both = tf.concat([tf.roll(ltr, 1, axis=1), tf.roll(rtl, -1, axis=1)], axis=-1)
        return TwoTowerOutput(ltr, rtl, self.head(both, self.word_embeddings))


def cloze_weights(inputs: PretrainInputs, special: SpecialTokenIds) -> tf.Tensor:
    """Returns float32 [batch, seq], 1 on the tokens that a two-tower generator predicts."""
    return tf.cast(candidates_mask(unmask(inputs), special), tf.float32)
