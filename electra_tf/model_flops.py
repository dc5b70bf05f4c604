"""Model FLOPs: what the matrix products of a step need at least, for the utilization.

Counted are the products of the forward pass, a multiply-add as two, and twice as much for
the backward pass (gradients of inputs and of weights), as in Chowdhery et al. 2022 ("PaLM",
appendix B). Embeddings are looked up for free, elementwise work is left out, and so is
whatever an implementation computes twice or for nothing; padding counts as tokens do.

Model FLOPs utilization = model FLOPs of a step / (seconds of a step * peak FLOPs a second).

No TensorFlow is imported here.
"""

from electra_tf.config import PretrainingConfig, discriminator_config, generator_config
from electra_tf.encoder_config import EncoderConfig

# Forward once, backward twice.
PASSES = 3


def encoder_model_flops(encoder: EncoderConfig, seq_length: int) -> int:
    """Returns the forward FLOPs of one sequence through the layers of an encoder."""
    hidden, size = encoder.hidden_size, encoder.embedding_size
    weights = 4 * hidden * hidden + 2 * hidden * encoder.intermediate_size
    attention = 2 * seq_length * hidden  # scores, and the sums of the values
    projection = size * hidden if size != hidden else 0
    per_token = encoder.num_hidden_layers * (weights + attention) + projection
    return 2 * seq_length * per_token


def model_flops_per_step(config: PretrainingConfig) -> int:
    """Returns the FLOPs of one pre-training step over the whole batch."""
    encoder, length = discriminator_config(config), config.max_seq_length
    full_size = encoder_model_flops(encoder, length)
    if not config.electra_objective:
        forward = full_size + _vocabulary_head(config, encoder)
    else:
        binary_head = (
            2 * length * (encoder.hidden_size * encoder.hidden_size + encoder.hidden_size)
        )
        forward = full_size + binary_head
        if not config.uniform_generator:
            generator = generator_config(config)
            forward += encoder_model_flops(generator, length)
            forward += _vocabulary_head(config, generator)
    return PASSES * config.train_batch_size * forward


def finetuning_model_flops_per_step(
    encoder: EncoderConfig, *, batch_size: int, seq_length: int
) -> int:
    """Returns the FLOPs of one fine-tuning step without the tasks' heads."""
    return PASSES * batch_size * encoder_model_flops(encoder, seq_length)


def _vocabulary_head(config: PretrainingConfig, encoder: EncoderConfig) -> int:
    per_position = encoder.embedding_size * (encoder.hidden_size + encoder.vocab_size)
    return 2 * config.max_predictions_per_seq * per_position
