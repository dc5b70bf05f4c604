"""FLOPs of Transformers, pre-training steps and fine-tuning steps, as the paper counts them.

The count follows the authors' FLOPs script, so results are comparable with the paper's
tables. A multiply-add is two operations, an exponential is one. The backward pass counts as
much as the forward pass, and an embedding lookup as a product with one-hot rows. Two terms
are too small but kept for comparability: LayerNorm after attention counts a single unit, and
attention values and output count hidden_size instead of heads * head_size, which differs
only in T5. `model_flops_per_step` counts the matrix products of the hardware instead.
"""

import dataclasses
import sys

from electra_tf.config import choices
from electra_tf.config.encoder import HEAD_SIZE, INTERMEDIATE_RATIO, EncoderConfig
from electra_tf.config.model_parts import ModelPart
from electra_tf.config.phases import configs_by_length, training_phases
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.util.tensorflow_import import import_tensorflow

# Operations per element, as in the authors' script.
DROPOUT = 4  # draw, compare, mask, scale up
LAYER_NORM = 5  # mean, two for the variance, scale, offset
ACTIVATION = 8  # GELU by its tanh approximation
SOFTMAX = 5  # maximum, subtraction, exp, sum, division
# Not in the authors' script: temperature, random number, two logarithms, sum, maximum.
SAMPLING = 6
# Masked tokens of BERT's and the paper's models: 80 of 512.
PUBLISHED_OUTPUT_SHARE = 0.15625
# Forward once, backward twice.
PASSES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transformer:
    """Shape of a Transformer at a fixed sequence length, and its FLOPs.

    Methods return the forward FLOPs of one sequence unless stated otherwise.

    Attributes:
        embedding_size: None is `hidden_size`.
        intermediate_size: None is four times `hidden_size`.
        num_attention_heads: None is `hidden_size` / 64.
        head_size: width of one head; None is `hidden_size` / `num_attention_heads`.
        output_share: fraction of the tokens with a softmax over the vocabulary.
        dense_embedding_lookup: count token embedding lookups as products with one-hot rows.
        decoder: whether every layer also attends to an encoder's output.
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
        """Returns the Transformer of an encoder configuration."""
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
        """One layer: attention and feed-forward network."""
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
        """Token, segment and position embeddings, and the projection to `hidden_size`."""
        size = self.embedding_size
        per_token = 2 * size * (self.seq_length + 2)  # positions and two segments, one-hot
        per_token += (2 + LAYER_NORM + DROPOUT) * size
        if self.dense_embedding_lookup:
            per_token += 2 * size * self.vocab_size
        if size != self.hidden_size:
            per_token += 2 * self.hidden_size * size + self.hidden_size
        return self.seq_length * per_token

    def vocabulary_head(self, input_size: int | None = None) -> float:
        """Softmax over the vocabulary at `output_share` of the tokens.

        Args:
            input_size: input width of the head; None is the hidden size.
        """
        size = self.embedding_size
        per_token = (
            2 * (input_size or self.hidden_size) * size
            + (1 + ACTIVATION + LAYER_NORM) * size
            + 2 * size * self.vocab_size
            + (SOFTMAX + 2) * self.vocab_size  # the 2 looks up the target's probability
        )
        return self.output_share * self.seq_length * per_token

    def boundary_head(self, input_size: int) -> float:
        """Head of the span-boundary objective, at `output_share` of the tokens.

        Args:
            input_size: input width of the head.
        """
        hidden, size = self.hidden_size, self.embedding_size
        per_token = (
            2 * input_size * hidden
            + (1 + ACTIVATION + LAYER_NORM) * hidden
            + 2 * hidden * size
            + (1 + ACTIVATION + LAYER_NORM) * size
            + 2 * size * self.vocab_size
            + (SOFTMAX + 2) * self.vocab_size
        )
        return self.output_share * self.seq_length * per_token

    def binary_head(self) -> int:
        """Binary classification of every token."""
        hidden = self.hidden_size
        return self.seq_length * (2 * hidden * hidden + (1 + ACTIVATION + 2) * hidden)

    def encoder(self) -> int:
        """Embeddings and all layers."""
        return self.embeddings() + self.num_hidden_layers * self.layer()

    def inference(self) -> int:
        """Encoder and a head of the discriminator's size, as in the paper's tables."""
        return self.encoder() + self.binary_head()

    def masked_lm_training(self, batch_size: int, num_steps: float) -> float:
        """Forward and backward FLOPs of all steps of masked language modeling."""
        return 2 * batch_size * num_steps * (self.encoder() + self.vocabulary_head())

    def discriminator_training(self, batch_size: int, num_steps: float) -> float:
        """Forward and backward FLOPs of all steps of replaced-token detection."""
        return 2 * batch_size * num_steps * (self.encoder() + self.binary_head())


def train_flops_by_part(config: PretrainingConfig) -> dict[str, float]:
    """Returns the FLOPs of one training step over the global batch, as the paper counts them.

    The softmax is counted at `max_predictions_per_seq` positions; the paper's tables count
    15.6 % of the tokens. Sampling from it at the same positions has no backward pass. With a
    length curriculum or in a two-stage run, this is the mean over all steps.

    Returns:
        FLOPs by part of the model, in execution order; parts that the objective does not
        have are omitted.
    """
    mean: dict[str, float] = {}
    for share, at_length, stage in _shares_of_steps(config):
        for part, value in _paper_flops(at_length, stage).items():
            mean[part] = mean.get(part, 0.0) + share * value
    return mean


def train_flops_per_step(config: PretrainingConfig) -> float:
    """Returns the sum of `train_flops_by_part`."""
    return sum(train_flops_by_part(config).values())


def _shares_of_steps(
    config: PretrainingConfig,
) -> list[tuple[float, PretrainingConfig, int]]:
    """Returns each phase: its fraction of the steps, configuration and stage."""
    at_length = {each.max_seq_length: each for _, each in configs_by_length(config)}
    stages = objective_class(config).stages_of(config)
    return [
        (
            (phase.end_step - phase.first_step) / config.num_train_steps,
            at_length[phase.seq_length],
            phase.stage,
        )
        for phase in training_phases(config, stages)
    ]


def _paper_flops(config: PretrainingConfig, stage: int) -> dict[str, float]:
    """Returns the FLOPs of a step of a stage by part of the model, at one length."""
    length = config.max_seq_length
    rows = config.train_batch_size
    parts: dict[str, float] = {}
    if sizes := _masking_head_sizes(config):
        inputs, hidden = sizes
        # The embeddings that it reads are counted with the encoder.
        per_token = 2 * inputs * hidden + (1 + ACTIVATION + 2) * hidden
        trained = _num_trained_masking_positions(config, stage)
        parts["masking head"] = rows * (length + 2 * trained) * per_token
    for part in _parts_of_stage(config, stage):
        model = Transformer.of(
            part.encoder, length, output_share=part.vocabulary_positions / length
        )
        passes = (2 if part.is_trained else 1) * rows
        head = 0.0
        if part.vocabulary_positions:
            head += passes * model.vocabulary_head(part.vocabulary_inputs)
        if part.boundary_inputs:
            head += passes * model.boundary_head(part.boundary_inputs)
        if part.binary_positions:
            head += passes * model.binary_head() * part.binary_positions / length
        if part.samples:
            parts["sampling"] = rows * SAMPLING * part.samples * config.vocab_size
        parts[part.name] = passes * model.encoder()
        if head:
            parts[f"{part.name} head"] = head
    return parts


def finetuning_flops_per_step(
    encoder: EncoderConfig,
    *,
    batch_size: int,
    seq_length: int,
    num_frozen_layers: int | None = None,
) -> float:
    """Returns the FLOPs of one fine-tuning step, as the paper counts them.

    Counts the encoder and a head of the discriminator's size; the heads of tasks are about
    as large or smaller. Every sequence has `seq_length` tokens, including padding.

    Args:
        encoder: shape of the encoder.
        batch_size: sequences of a step.
        seq_length: tokens of a sequence.
        num_frozen_layers: lowest layers that, like the embeddings, have no backward pass, see
            `electra_tf.model.encoder.Encoder.freeze`; None if nothing is frozen.
    """
    model = Transformer.of(encoder, seq_length)
    flops = model.discriminator_training(batch_size, 1)
    if num_frozen_layers is not None:
        flops -= batch_size * (model.embeddings() + num_frozen_layers * model.layer())
    return flops


def encoder_model_flops(encoder: EncoderConfig, seq_length: int) -> int:
    """Returns the model FLOPs of one forward pass of a sequence through an encoder's layers."""
    hidden, size = encoder.hidden_size, encoder.embedding_size
    projection = 2 * seq_length * size * hidden if size != hidden else 0
    return projection + encoder.num_hidden_layers * _layer_model_flops(encoder, seq_length)


def _layer_model_flops(encoder: EncoderConfig, seq_length: int) -> int:
    hidden = encoder.hidden_size
    weights = 4 * hidden * hidden + 2 * hidden * encoder.intermediate_size
    attention = 2 * seq_length * hidden  # scores, and the sums of the values
    return 2 * seq_length * (weights + attention)


def model_flops_per_step(config: PretrainingConfig) -> int:
    """Returns the model FLOPs of one pre-training step over the global batch.

    With a length curriculum, this is the mean over all steps.
    """
    return round(
        sum(
            share * _model_flops(at_length, stage)
            for share, at_length, stage in _shares_of_steps(config)
        )
    )


def model_flops_by_phase(config: PretrainingConfig) -> dict[tuple[int, int], int]:
    """Returns the model FLOPs of a step by stage of a run and sequence length."""
    stages = objective_class(config).stages_of(config)
    return {
        (stage, at_length.max_seq_length): _model_flops(at_length, stage)
        for stage in range(len(stages))
        for _, at_length in configs_by_length(config)
    }


def finetuning_model_flops_per_step(
    encoder: EncoderConfig,
    *,
    batch_size: int,
    seq_length: int,
    num_frozen_layers: int | None = None,
) -> int:
    """Returns the model FLOPs of one fine-tuning step, without the heads of tasks.

    The arguments are those of `finetuning_flops_per_step`.
    """
    forward = encoder_model_flops(encoder, seq_length)
    if num_frozen_layers is None:
        return PASSES * batch_size * forward
    num_trained = encoder.num_hidden_layers - num_frozen_layers
    trained = num_trained * _layer_model_flops(encoder, seq_length)
    return batch_size * (forward + (PASSES - 1) * trained)


def _model_flops(config: PretrainingConfig, stage: int) -> int:
    """Returns the model FLOPs of a step of a stage, at one length."""
    total = 0
    for part in _parts_of_stage(config, stage):
        forward = encoder_model_flops(part.encoder, config.max_seq_length)
        hidden = part.encoder.hidden_size
        inputs = part.vocabulary_inputs or hidden
        per_word = part.encoder.embedding_size * (inputs + part.encoder.vocab_size)
        if part.boundary_inputs:
            per_word += part.boundary_inputs * hidden
            per_word += part.encoder.embedding_size * (hidden + part.encoder.vocab_size)
        forward += 2 * part.vocabulary_positions * per_word
        forward += 2 * part.binary_positions * (hidden * hidden + hidden)
        total += (PASSES if part.is_trained else 1) * forward
    if sizes := _masking_head_sizes(config):
        inputs, hidden = sizes
        positions = PASSES * _num_trained_masking_positions(config, stage)
        total += 2 * (config.max_seq_length + positions) * (inputs * hidden + hidden)
    return config.train_batch_size * total


def _masking_head_sizes(config: PretrainingConfig) -> tuple[int, int] | None:
    """Returns the input and hidden width of a learned masking's head; None without one.

    It scores all tokens to choose the masked ones, and is trained at these.
    """
    has_encoder = objective_class(config).generator_class(config).has_encoder
    encoder = generator_config(config) if has_encoder else discriminator_config(config)
    return choices.load(choices.MASKING, config.masking).head_sizes(encoder)


def _num_trained_masking_positions(config: PretrainingConfig, stage: int) -> int:
    """Returns the masked positions of a sequence; 0 if no masked LM is trained in the stage."""
    parts = _parts_of_stage(config, stage)
    is_trained = any(part.is_trained and part.vocabulary_positions for part in parts)
    return config.max_predictions_per_seq if is_trained else 0


def _parts_of_stage(config: PretrainingConfig, stage: int) -> list[ModelPart]:
    return [part for part in model_parts(config) if part.stage in (None, stage)]


def model_parts(config: PretrainingConfig) -> list[ModelPart]:
    """Returns the encoders that a training step runs, in order; imports TensorFlow."""
    return objective_class(config).parts(config)


def objective_class(config: PretrainingConfig) -> type:
    """Returns the class selected by `--objective`; imports TensorFlow, without its messages."""
    # Imported here, because the FLOPs of published models do not need it.
    if "tensorflow" not in sys.modules:
        import_tensorflow()
    return choices.load(choices.OBJECTIVES, config.objective)
