"""Corrupts sentences with the generator, and shows what the discriminator detects."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from electra_tf import model_builder
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.resumption import changed_metrics
from electra_tf.masking.word_list import word_list_sha256
from electra_tf.model.randomness import Randomness
from electra_tf.objectives.electra_15 import warn_of_unmasked_tokens
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.framing import INPUT_IDS, INPUT_MASK, NUM_SPECIAL
from electra_tf.text.inspected_tokens import InspectedToken, inspected_tokens, render
from electra_tf.text.text_inputs import single_text_inputs
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, refuse_single_string

# Number of tokens listed below each sentence.
_NUM_NAMED = 3
# Tokens of the sentences that are computed at once: their logits over the vocabulary are large.
_BATCH_TOKENS = 4096


def show(
    config: PretrainingConfig,
    sentences: Sequence[str],
    *,
    token_counts: model_builder.TokenCounter,
    color: bool,
    print_fn: Callable[[str], None] = print,
) -> None:
    """Corrupts sentences with the latest checkpoint's generator, and prints the result.

    Args:
        config: configuration of the run.
        sentences: texts.
        token_counts: counts the tokens of the run's records, for a unigram generator or
            strategic masking.
        color: mark tokens by colors.
        print_fn: prints a line.

    Raises:
        UserError: there is no checkpoint, or it has no discriminator.
    """
    if not model_builder.model_class(config).has_discriminator:
        raise UserError(f"--objective={config.objective}: the model has no discriminator")
    vocabulary = model_builder.load_checked_vocabulary(config)
    strategy = create_strategy(config)
    model, step, checkpoint = model_builder.load_model(
        config, vocabulary, strategy, token_counts
    )
    words = word_list_sha256(config.word_list)
    for change in changed_metrics(config, words, model.key_defaults(config)):
        warn_once(f"tokens are not replaced as in training: {change}")
    model.warn_of_untrained(config, "its suspicions")
    warn_of_unmasked_tokens(config.objective)
    tokenizer = Tokenizer(vocabulary, config.do_lower_case, config.strip_accents)
    print_fn(
        f"The generator replaced some tokens of each sentence (step {step}, {checkpoint})."
    )
    print_fn(
        "Underlined: replaced. Red: tokens that the discriminator suspects."
        if color
        else "token(original): replaced. token?: tokens that the discriminator suspects."
    )
    for tokens in inspect_sentences(model, vocabulary, tokenizer, sentences, config.seed):
        print_fn(f"\n  {render(tokens, color=color)}")
        worst = sorted(tokens, key=lambda item: -item.probability)[:_NUM_NAMED]
        named = ", ".join(f"{item.token} {item.probability:.0%}" for item in worst)
        print_fn(f"    most suspected: {named}")
    length = config.max_seq_length
    room = length - NUM_SPECIAL[1]
    lengths = tokenizer.tokenize(tf.constant(list(sentences))).row_lengths().numpy()
    if num_long := int((lengths > room).sum()):
        warn_once(
            f"{num_long} of {len(sentences)} sentences have more than {room} tokens, and are "
            f"truncated: --max_seq_length is {length}"
        )


def inspect_sentences(
    model: PretrainingModel,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    seed: int,
) -> list[list[InspectedToken]]:
    """Returns the tokens of each sentence, some replaced by the generator.

    Sentences are truncated at the model's `max_seq_length`; [CLS] and [SEP] are omitted.

    Args:
        model: model with a trained discriminator.
        vocabulary, tokenizer: those of the model.
        sentences: the texts.
        seed: random seed of masking and sampling.

    Raises:
        UserError: the run is in a stage without a discriminator, or `sentences` is a single
            string.
    """
    refuse_single_string("texts", sentences)
    length = model.config.max_seq_length
    batch_size = max(1, _BATCH_TOKENS // length)
    inspected: list[list[InspectedToken]] = []
    for first in range(0, len(sentences), batch_size):
        batch = sentences[first : first + batch_size]
        features = encode(vocabulary, tokenizer, batch, length)
        randomness = Randomness(seed, 0, first_example=first, dropout=False)
        output = model(features, randomness=randomness)
        if output.discriminator is None:
            raise UserError(
                f"--objective={model.config.objective}: the discriminator is not trained yet; "
                "continue the run"
            )
        inspected += inspected_tokens(
            vocabulary,
            features[INPUT_IDS].numpy(),
            output.fake_data.inputs.input_ids.numpy(),
            output.discriminator.probs.numpy(),
            features[INPUT_MASK].numpy(),
        )
    return inspected


def encode(
    vocabulary: Vocabulary, tokenizer: Tokenizer, texts: Sequence[str], max_seq_length: int
) -> dict[str, tf.Tensor]:
    """Returns the features of single texts, truncated and padded to `max_seq_length`.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 [n, max_seq_length].

    Raises:
        UserError: `texts` is a single string.
    """
    refuse_single_string("texts", texts)
    tokens = tokenizer.tokenize(tf.constant(list(texts), tf.string))
    inputs = single_text_inputs(vocabulary, tokens, max_seq_length)
    missing = [[0, 0], [0, max_seq_length - tf.shape(inputs.input_ids)[1]]]
    return {name: tf.pad(value, missing) for name, value in inputs._asdict().items()}
