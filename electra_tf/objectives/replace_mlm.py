"""Replace MLM: masked language modeling with samples instead of [MASK] (section 3.5)."""

import dataclasses

import tensorflow as tf

from electra_tf.config.hyperparameters import within
from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.masking.masked_batch import num_masked_tokens
from electra_tf.model import metrics
from electra_tf.model.batch_types import (
    LossTerm,
    MaskedLMOutput,
    PretrainingOutput,
    PretrainInputs,
)
from electra_tf.model.heads import MaskedLMHead, get_softmax_output
from electra_tf.model.metrics import masked_lm_sums, sampling_sums
from electra_tf.model.positions import gather_positions
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once


@dataclasses.dataclass(frozen=True)
class ReplaceMLMHparams:
    """`replace_weight`: loss weight of the full-size model; the generator has `gen_weight`."""

    replace_weight: float = within(1.0, 0.0)


class ReplaceMLM(PretrainingModel):
    """gen_weight * L_MLM of the generator + replace_weight * L_MLM of the full-size model.

    As in fine-tuning, the full-size model never sees [MASK]: at the masked positions m, it
    reads the generator's samples, and predicts the original tokens. As in masked
    language modeling (section 2; `get_softmax_output` in the authors' code), both losses are

        sum over t in m of -log p(x_t | input) / |m|

    over all rows of the global batch; the generator's input is the masked text, and the
    full-size model's is the sampled text. Samples that equal the original count, too.
    """

    Hparams = ReplaceMLMHparams
    has_discriminator = False

    def create_layers(self) -> None:
        """Creates the vocabulary head of the full-size encoder."""
        self.full_size_predictions = MaskedLMHead(
            self.encoder_config,
            self.electra.embeddings.config.embedding_size,
            dtype=self.dtype_policy,
            name="full_size_predictions",
        )

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes both losses."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        sequence = self.encode(fake.inputs, randomness)
        full_size = self.predict_tokens(
            gather_positions(sequence, inputs.masked_lm_positions),
            inputs.masked_lm_ids,
            inputs.masked_lm_weights,
        )
        weight = self.term_weights(inputs)["replace"]
        terms = {
            **self.masked_lm_terms(inputs, masked_lm),
            "replace": LossTerm(full_size.loss, self.hparams.replace_weight, weight),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, full_size_lm=full_size)

    def predict_tokens(
        self, x: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
    ) -> MaskedLMOutput:
        """Predicts tokens from the full-size encoder's output.

        Args:
            x: [batch, n, hidden].
            targets: int32 [batch, n].
            weights: float32 [batch, n].
        """
        table = self.electra.embeddings.word_embeddings
        logits = self.full_size_predictions(x, table)
        return get_softmax_output(logits, targets, weights)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens, for both terms."""
        return {
            **self.masked_lm_term_weights(inputs),
            "replace": num_masked_tokens(inputs),
        }

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the metric sums of both models, with `full_size_` for the full-size one."""
        full_size = masked_lm_sums(output.inputs, output.full_size_lm)
        return {
            **masked_lm_sums(output.inputs, output.masked_lm),
            **sampling_sums(output.inputs, output.fake_data),
            **{f"full_size_{name}": value for name, value in full_size.items()},
        }

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Also warns if no loss trains the full-size model's predictions."""
        super().warn_of_unused(config)
        if not cls.parse_hparams(config).replace_weight:
            warn_once(
                "replace_weight=0 of --objective_hparams does not train the full-size model's "
                "predictions, so their metrics (full_size_*) are meaningless"
            )

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of all losses that train an encoder."""
        weight = cls.parse_hparams(config).replace_weight
        return super().loss_weights(config) | {"replace_weight of --objective_hparams": weight}

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the generator, and the full-size encoder with a vocabulary head."""
        full_size = ModelPart(
            "full-size masked LM",
            discriminator_config(config),
            vocabulary_positions=config.max_predictions_per_seq,
            samples=config.max_predictions_per_seq,
        )
        return [*cls.generator_class(config).parts(config), full_size]
