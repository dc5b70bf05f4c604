"""Plain masked language modelling with the full-size encoder (`electra_objective=false`)."""

from typing import TYPE_CHECKING

import tensorflow as tf

from electra_tf import metrics
from electra_tf.config import PretrainingConfig
from electra_tf.objectives.objective import Objective, masked_lm_sums, num_masked_tokens
from electra_tf.outputs import LossTerm, PretrainingOutput, Randomness
from electra_tf.pretrain_helpers import PretrainInputs

if TYPE_CHECKING:
    from electra_tf.pretraining_model import PretrainingModel


class MaskedLanguageModel(Objective):
    """BERT's objective without next-sentence prediction (Devlin et al. 2019)."""

    trains_generator = True
    has_discriminator = False

    @classmethod
    def selected_by(cls, config: PretrainingConfig) -> bool:
        """Whether `electra_objective` is off."""
        return not config.electra_objective

    def forward(
        self,
        model: "PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> PretrainingOutput:
        """Returns gen_weight * (masked LM loss); nothing is sampled."""
        masked_lm = model._get_masked_lm_output(inputs, randomness)
        weight = self.term_weights(inputs)["gen"]
        terms = {"gen": LossTerm(masked_lm.loss, self.config.gen_weight, weight)}
        return PretrainingOutput(terms, inputs, masked_lm)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens."""
        return {"gen": num_masked_tokens(inputs)}

    def metric_sums(self, output: PretrainingOutput) -> metrics.Sums:
        """Returns the masked language model's sums."""
        return masked_lm_sums(output.inputs, output.masked_lm)
