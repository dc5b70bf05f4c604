"""The paper's generator: a masked language model."""

import keras
import tensorflow as tf

from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.generators.base import Generator
from electra_tf.generators.span_boundary import SpanBoundaryHead, boundary_inputs
from electra_tf.masking.masked_batch import num_masked_tokens
from electra_tf.model.batch_types import LossTerm, MaskedLMOutput, PretrainInputs
from electra_tf.model.heads import MaskedLMHead, get_softmax_output
from electra_tf.model.positions import gather_positions
from electra_tf.model.randomness import Randomness


class MaskedLMGenerator(Generator):
    """Masked language model with output weights tied to its token embeddings (section 2).

    `--objective=mlm` uses it with the full-size encoder.
    """

    has_encoder = True

    def create_layers(self) -> dict[str, keras.layers.Layer]:
        """Creates the head, and the span-boundary head if that objective is used."""
        encoder = self.encoders.generator
        shape, width = encoder.config, encoder.embeddings.config.embedding_size
        heads = {"generator_predictions": MaskedLMHead}
        if self.config.span_boundary_weight:
            heads["generator_span_boundary"] = SpanBoundaryHead
        return {
            name: head(shape, width, dtype=encoder.dtype_policy, name=name)
            for name, head in heads.items()
        }

    def __call__(self, inputs: PretrainInputs, randomness: Randomness) -> MaskedLMOutput:
        """Predicts the masked tokens from the masked text."""
        encoder = self.encoders.generator
        sequence = encoder(
            inputs.input_ids,
            inputs.input_mask,
            inputs.segment_ids,
            randomness.dropout_key("generator_dropout"),
        ).sequence_output
        states = gather_positions(sequence, inputs.masked_lm_positions)
        table = encoder.embeddings.word_embeddings
        logits = self.layers["generator_predictions"](states, table)
        output = get_softmax_output(logits, inputs.masked_lm_ids, inputs.masked_lm_weights)
        output = output._replace(states=states)
        if self.config.span_boundary_weight:
            logits = self.layers["generator_span_boundary"](sequence, inputs, table)
            boundary = get_softmax_output(
                logits, inputs.masked_lm_ids, inputs.masked_lm_weights
            )
            output = output._replace(span_boundary_loss=boundary.loss)
        return output

    def terms(self, inputs: PretrainInputs, output: MaskedLMOutput) -> dict[str, LossTerm]:
        """Returns its loss term and, if trained, that of the span-boundary objective."""
        terms = super().terms(inputs, output)
        if output.span_boundary_loss is not None:
            terms["span_boundary"] = LossTerm(
                output.span_boundary_loss,
                self.config.span_boundary_weight,
                self.term_weights(inputs)["span_boundary"],
            )
        return terms

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens."""
        names = ["gen", *(["span_boundary"] if self.config.span_boundary_weight else [])]
        return {name: num_masked_tokens(inputs) for name in names}

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Accepts `--span_boundary_weight`."""

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of both objectives."""
        weights = super().loss_weights(config)
        if config.span_boundary_weight:
            weights["--span_boundary_weight"] = config.span_boundary_weight
        return weights

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the encoder with its vocabulary head and span-boundary head."""
        shape = generator_config(config)
        return [
            ModelPart(
                "generator",
                shape,
                vocabulary_positions=config.max_predictions_per_seq,
                boundary_inputs=boundary_inputs(config, shape),
            )
        ]
