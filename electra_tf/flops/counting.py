"""FLOPs in the paper's counting: any Transformer, a pre-training step, a fine-tuning step.

The counting is that of the authors' FLOPs script, so that results compare with the paper's
tables. An operation is a mathematical one: a multiply-add is two, an exponential one. The
backward pass counts as much as the forward pass, and looking up embeddings as the product
with one-hot rows. Two terms are smaller than they should be, and stay so for the sake of the
published numbers: the LayerNorm after attention counts as one of a single unit, and the
attention's values and output count hidden_size where heads * head_size is meant, which
differs in T5 alone. See `electra_tf.model_flops` for what the hardware has to multiply.
"""

import dataclasses
import sys

from electra_tf.config.encoder import HEAD_SIZE, INTERMEDIATE_RATIO, EncoderConfig
from electra_tf.config.model_parts import ModelPart
from electra_tf.config.phases import configs_by_length
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.tensorflow_import import import_tensorflow

# Operations for each number that goes in, as in the authors' script.
DROPOUT = 4  # draw, compare, mask, scale up
LAYER_NORM = 5  # mean, two for the variance, scale, offset
ACTIVATION = 8  # GELU by its tanh approximation
SOFTMAX = 5  # maximum, subtraction, exp, sum, division
# Not in that script: temperature, random number, two logarithms, sum, maximum.
SAMPLING = 6
# Masked tokens of BERT's and the paper's models: 80 of 512.
PUBLISHED_OUTPUT_SHARE = 0.15625
# Forward once, backward twice.
PASSES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transformer:
    """Shape of a Transformer on sequences of one length, and its FLOPs.

    Every method returns forward FLOPs of one sequence, unless it says otherwise.

    Attributes:
        embedding_size: that of the hidden layers if None.
        intermediate_size: four times `hidden_size` if None.
        num_attention_heads: a 64th of `hidden_size` if None.
        head_size: width of one head; together they are as wide as `hidden_size` if None.
        output_share: share of the tokens whose word is predicted.
        dense_embedding_lookup: count the lookup of words as a product with one-hot rows.
        decoder: every layer attends to an encoder's output as well.
    """

    hidden_size: int
    num_hidden_layers: int
    seq_length: int = 512
    vocab_size: int = 30522
    embedding_size: int | None = None
    intermediate_size: int | None = None
    num_attention_heads: int | None = None
    head_size: int | None = None
    output_share: float = PUBLISHED_OUTPUT_SHARE
    dense_embedding_lookup: bool = True
    decoder: bool = False

    def __post_init__(self) -> None:
        hidden = self.hidden_size
        for name, value in (
            ("embedding_size", hidden),
            ("intermediate_size", INTERMEDIATE_RATIO * hidden),
            ("num_attention_heads", max(1, hidden // HEAD_SIZE)),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @classmethod
    def of(cls, encoder: EncoderConfig, seq_length: int, **more: float) -> "Transformer":
        """Returns the Transformer that `encoder` describes."""
        return cls(
            hidden_size=encoder.hidden_size,
            num_hidden_layers=encoder.num_hidden_layers,
            seq_length=seq_length,
            vocab_size=encoder.vocab_size,
            embedding_size=encoder.embedding_size,
            intermediate_size=encoder.intermediate_size,
            num_attention_heads=encoder.num_attention_heads,
            **more,
        )

    def layer(self) -> int:
        """One layer: attention, and the feed-forward network."""
        hidden, length, heads = self.hidden_size, self.seq_length, self.num_attention_heads
        projected = hidden if self.head_size is None else heads * self.head_size
        probabilities = length * heads
        attention = (
            3 * (2 * hidden * projected + projected)  # query, key and value
            + 2 * projected * length
            + (1 + SOFTMAX + DROPOUT) * probabilities  # the 1 scales the scores
            + 2 * hidden * length
            + 2 * hidden * hidden
            + (1 + DROPOUT + 1) * hidden  # bias, dropout, residual
            + LAYER_NORM
        )
        feed_forward = (
            2 * (2 * hidden * self.intermediate_size)
            + (1 + ACTIVATION) * self.intermediate_size
            + (1 + DROPOUT + 1 + LAYER_NORM) * hidden
        )
        return length * (attention * (2 if self.decoder else 1) + feed_forward)

    def embeddings(self) -> int:
        """Words, segments and positions, and the projection to `hidden_size` if any."""
        size = self.embedding_size
        per_token = 2 * size * (self.seq_length + 2)  # positions and two segments, one-hot
        per_token += (2 + LAYER_NORM + DROPOUT) * size
        if self.dense_embedding_lookup:
            per_token += 2 * size * self.vocab_size
        if size != self.hidden_size:
            per_token += 2 * self.hidden_size * size + self.hidden_size
        return self.seq_length * per_token

    def vocabulary_head(self, input_size: int | None = None) -> float:
        """Prediction of words at `output_share` of the tokens.

        Args:
            input_size: width of what they are predicted from, if not the hidden size.
        """
        size = self.embedding_size
        per_token = (
            2 * (input_size or self.hidden_size) * size
            + (1 + ACTIVATION + LAYER_NORM) * size
            + 2 * size * self.vocab_size
            + (SOFTMAX + 2) * self.vocab_size  # the 2 looks up the target's probability
        )
        return self.output_share * self.seq_length * per_token

    def binary_head(self) -> int:
        """Real or replaced, for every token."""
        hidden = self.hidden_size
        return self.seq_length * (2 * hidden * hidden + (1 + ACTIVATION + 2) * hidden)

    def encoder(self) -> int:
        """Embeddings and all layers."""
        return self.embeddings() + self.num_hidden_layers * self.layer()

    def inference(self) -> int:
        """The encoder and a head of the discriminator's size, as the paper's tables have it."""
        return self.encoder() + self.binary_head()

    def masked_lm_training(self, batch_size: int, num_steps: float) -> float:
        """Forward and backward FLOPs of all steps with the head over the vocabulary."""
        return 2 * batch_size * num_steps * (self.encoder() + self.vocabulary_head())

    def discriminator_training(self, batch_size: int, num_steps: float) -> float:
        """Forward and backward FLOPs of all steps with the binary head."""
        return 2 * batch_size * num_steps * (self.encoder() + self.binary_head())


def train_flops_by_part(config: PretrainingConfig) -> dict[str, float]:
    """Returns the FLOPs of one training step over the whole batch, in the paper's counting.

    Words are predicted at the run's own `max_predictions_per_seq` positions, where the
    paper's tables count 15.6 % of the tokens. Samples are drawn from the generator's softmax
    at the same positions; nothing flows back through them. A step of a length curriculum or
    of a two-stage run stands for the mean over the run's steps.

    Returns:
        FLOPs by part of the model, in the order in which the parts run; those that the
        objective does not have are left out.
    """
    mean: dict[str, float] = {}
    for share, at_length in configs_by_length(config):
        for part, value in _flops_at_one_length(at_length).items():
            mean[part] = mean.get(part, 0.0) + share * value
    return mean


def train_flops_per_step(config: PretrainingConfig) -> float:
    """Returns the sum of `train_flops_by_part`."""
    return sum(train_flops_by_part(config).values())


def _flops_at_one_length(config: PretrainingConfig) -> dict[str, float]:
    length = config.max_seq_length
    parts: dict[str, float] = {}
    for part in model_parts(config):
        rows = config.train_batch_size * part.share_of_steps
        model = Transformer.of(
            part.encoder, length, output_share=part.vocabulary_positions / length
        )
        passes = (2 if part.is_trained else 1) * rows
        head = 0.0
        if part.vocabulary_positions:
            head += passes * model.vocabulary_head(part.vocabulary_inputs)
        if part.binary_positions:
            head += passes * model.binary_head() * part.binary_positions / length
        if part.samples:
            parts["sampling"] = rows * SAMPLING * part.samples * config.vocab_size
        parts[part.name] = passes * model.encoder()
        if head:
            parts[f"{part.name} head"] = head
    return parts


def finetuning_flops_per_step(
    encoder: EncoderConfig, *, batch_size: int, seq_length: int
) -> float:
    """Returns the FLOPs of one fine-tuning step, in the paper's counting.

    Counts the encoder and a head of the discriminator's size in place of the tasks' own,
    which are smaller or about as large; every sequence has `seq_length` tokens, padding
    included.
    """
    model = Transformer.of(encoder, seq_length)
    return model.discriminator_training(batch_size, 1)


def encoder_model_flops(encoder: EncoderConfig, seq_length: int) -> int:
    """Returns the forward FLOPs of one sequence through the layers of an encoder."""
    hidden, size = encoder.hidden_size, encoder.embedding_size
    weights = 4 * hidden * hidden + 2 * hidden * encoder.intermediate_size
    attention = 2 * seq_length * hidden  # scores, and the sums of the values
    projection = size * hidden if size != hidden else 0
    per_token = encoder.num_hidden_layers * (weights + attention) + projection
    return 2 * seq_length * per_token


def model_flops_per_step(config: PretrainingConfig) -> int:
    """Returns the FLOPs of one pre-training step over the whole batch.

    With a length curriculum, the mean over the run's steps.
    """
    return round(
        sum(share * _at_one_length(at_length) for share, at_length in configs_by_length(config))
    )


def finetuning_model_flops_per_step(
    encoder: EncoderConfig, *, batch_size: int, seq_length: int
) -> int:
    """Returns the FLOPs of one fine-tuning step without the tasks' heads."""
    return PASSES * batch_size * encoder_model_flops(encoder, seq_length)


def _at_one_length(config: PretrainingConfig) -> float:
    total = 0.0
    for part in model_parts(config):
        forward = encoder_model_flops(part.encoder, config.max_seq_length)
        hidden = part.encoder.hidden_size
        inputs = part.vocabulary_inputs or hidden
        per_word = part.encoder.embedding_size * (inputs + part.encoder.vocab_size)
        forward += 2 * part.vocabulary_positions * per_word
        forward += 2 * part.binary_positions * (hidden * hidden + hidden)
        total += (PASSES if part.is_trained else 1) * part.share_of_steps * forward
    return config.train_batch_size * total


def model_parts(config: PretrainingConfig) -> list[ModelPart]:
    """Returns the parts that a step of a run has, in their order; loads TensorFlow."""
    # Here, so that what counts the FLOPs of published models starts fast; and quietly.
    if "tensorflow" not in sys.modules:
        import_tensorflow()
    from electra_tf.objective import objective_class

    return objective_class(config).parts(config)
