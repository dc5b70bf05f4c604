"""Model FLOPs: what the matrix products of a step need at least, for the utilization.

Counted are the products of the forward pass, a multiply-add as two, and twice as much for
the backward pass (gradients of inputs and of weights), as in Chowdhery et al. 2022 ("PaLM",
appendix B). Embeddings are looked up for free, elementwise work is left out, and so is
whatever an implementation computes twice or for nothing; padding counts as tokens do.

Model FLOPs utilization = model FLOPs of a step / (seconds of a step * peak FLOPs a second).
"""

from electra_tf.config import PretrainingConfig
from electra_tf.encoder_config import EncoderConfig
from electra_tf.length_curriculum import configs_by_length
from electra_tf.model_parts import model_parts

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
