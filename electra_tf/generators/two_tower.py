"""The two-tower generator: predicts each token from its left and right context.

Clark et al. 2020, "Pre-Training Transformers as Energy-Based Cloze Models" (Electric), section
2.4: a left-to-right and a right-to-left encoder predict every token given all others, in one
pass over unmasked text.
"""

import dataclasses
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.choices import SHARE_NONE
from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.generators.base import Generator
from electra_tf.masking.masked_batch import candidates_mask, unmask
from electra_tf.model.batch_types import (
    ClozeOutput,
    LossTerm,
    MaskedLMOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.embeddings import Embeddings
from electra_tf.model.encoder import LEFT_TO_RIGHT, RIGHT_TO_LEFT, Encoder
from electra_tf.model.heads import MaskedLMHead, get_softmax_output
from electra_tf.model.positions import gather_positions
from electra_tf.model.randomness import Randomness


class TwoTowerOutput(NamedTuple):
    """Outputs of the towers [batch, seq, hidden], and logits [batch, seq, vocab]."""

    left_to_right: tf.Tensor
    right_to_left: tf.Tensor
    logits: tf.Tensor


class TwoTowers(keras.layers.Layer):
    """Predicts every token of unmasked text from all others.

    Args:
        config: configuration of the run; both towers have the generator's shape.
        embeddings: embeddings of the discriminator, used by both towers unless
            embedding_sharing is none; then each has its own, and the output layer is tied to
            those of the left-to-right tower.
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

        # No name scope for this layer, so that towers and head have the authors' names.
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
        position_ids: tf.Tensor | None = None,
        float32: bool = False,
    ) -> TwoTowerOutput:
        """Predicts every token.

        Position t is predicted from the left-to-right output at t - 1 and the right-to-left
        output at t + 1. As in the authors' code, the first and last positions wrap around;
        these are special tokens, which are not predicted.

        Args:
            input_ids, input_mask, segment_ids: int32 [batch, seq], unmasked.
            randomness: random stream of dropout.
            position_ids: see `Encoder.call`.
            float32: compute the logits in float32; see `MaskedLMHead`.
        """
        features = (input_ids, input_mask, segment_ids)
        ltr = self.ltr(
            *features,
            randomness.dropout_key("generator_dropout"),
            position_ids=position_ids,
        ).sequence_output
        rtl = self.rtl(
            *features,
            randomness.dropout_key("generator_rtl_dropout"),
            position_ids=position_ids,
        ).sequence_output
        # LiteRT does not support tf.roll.
        ltr_before = tf.concat([ltr[:, -1:], ltr[:, :-1]], axis=1)
        rtl_after = tf.concat([rtl[:, 1:], rtl[:, :1]], axis=1)
        both = tf.concat([ltr_before, rtl_after], axis=-1)
        logits = self.head(both, self.word_embeddings, float32=float32)
        return TwoTowerOutput(ltr, rtl, logits)


class TwoTowerGenerator(Generator):
    """Two-tower generator; it reads unmasked text and learns from all tokens."""

    def create_layers(self) -> dict[str, keras.layers.Layer]:
        """Creates the towers."""
        electra = self.encoders.discriminator
        towers = TwoTowers(
            self.config, electra.embeddings, dtype=electra.dtype_policy, name="two_tower"
        )
        return {"two_tower": towers}

    def __call__(self, inputs: PretrainInputs, randomness: Randomness) -> MaskedLMOutput:
        """Predicts all tokens, including the masked ones."""
        original = unmask(inputs)
        cloze = self.layers["two_tower"](
            original.input_ids,
            original.input_mask,
            original.segment_ids,
            randomness=randomness,
        )
        at_masked = get_softmax_output(
            gather_positions(cloze.logits, inputs.masked_lm_positions),
            inputs.masked_lm_ids,
            inputs.masked_lm_weights,
        )
        weights = cloze_weights(inputs, self.special)
        whole = get_softmax_output(cloze.logits, original.input_ids, weights)
        return at_masked._replace(
            cloze=ClozeOutput(
                cloze.logits, whole.per_example_loss, whole.preds, weights, whole.loss
            )
        )

    def terms(self, inputs: PretrainInputs, output: MaskedLMOutput) -> dict[str, LossTerm]:
        """Returns the loss term of all predicted tokens."""
        weight = self.term_weights(inputs)["gen"]
        return {"gen": LossTerm(output.cloze.loss, self.config.gen_weight, weight)}

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens other than special ones."""
        return {"gen": tf.reduce_sum(cloze_weights(inputs, self.special))}

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns both towers; the head takes their concatenated outputs."""
        shape = generator_config(config)
        return [
            ModelPart("left-to-right tower", shape),
            ModelPart(
                "right-to-left tower",
                shape,
                vocabulary_positions=config.max_seq_length,
                vocabulary_inputs=2 * shape.hidden_size,
            ),
        ]


def cloze_weights(inputs: PretrainInputs, special: SpecialTokenIds) -> tf.Tensor:
    """Returns float32 [batch, seq], 1 for tokens that a two-tower generator predicts."""
    return tf.cast(candidates_mask(unmask(inputs), special), tf.float32)
