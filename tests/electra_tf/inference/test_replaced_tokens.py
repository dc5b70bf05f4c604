"""What the demo shows: corrupted sentences with the discriminator's beliefs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference import replaced_tokens
from electra_tf.model_builder import build_model, special_token_ids
from electra_tf.text.inspected_tokens import InspectedToken
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from flags.records import training_records
from tests import pretraining_runs
from tests.electra_tf.objectives.numpy_losses import TWO_STAGE

SENTENCE = [
    InspectedToken("the", "the", 0.1),
    InspectedToken("dog", "cat", 0.9),
    InspectedToken("sat", "sat", 0.7),
    InspectedToken("##ting", "##s", 0.2),
]


def test_text_without_colours():
    rendered = replaced_tokens.render(SENTENCE, color=False)
    assert rendered == "the dog?(cat) sat?ting(##s)"


def test_colours():
    rendered = replaced_tokens.render(SENTENCE, color=True)
    assert "\x1b[1;31;4mdog\x1b[0m" in rendered
    assert "\x1b[1;31msat\x1b[0m" in rendered
    assert rendered.startswith("the ")


def test_sentences_are_padded_masked_and_read_back(make_config, tiny_data):
    config = make_config(mask_prob=0.5, max_predictions_per_seq=8)
    vocabulary = load_vocabulary(tiny_data / "vocab.txt", "--vocab_file")
    tokenizer = Tokenizer(vocabulary, True, True)
    sentences = ["w1 w2 w3 w4 w5 w6 w7 w8", "w3 " * 40, ""]
    encoded = replaced_tokens.encode(vocabulary, tokenizer, sentences, 16)
    np.testing.assert_array_equal(np.sum(encoded["input_mask"], axis=1), [10, 16, 2])
    assert encoded["input_ids"].dtype == tf.int32
    keras.utils.set_random_seed(0)
    model = build_model(config, special_token_ids(vocabulary))
    with pytest.raises(UserError, match="texts must be a list of strings, not 'w1 w2'"):
        replaced_tokens.inspect_sentences(model, vocabulary, tokenizer, "w1 w2", 0)
    assert replaced_tokens.inspect_sentences(model, vocabulary, tokenizer, [], 0) == []
    shown = replaced_tokens.inspect_sentences(model, vocabulary, tokenizer, sentences, 0)
    assert [item.original for item in shown[0]] == sentences[0].split()
    assert [len(tokens) for tokens in shown] == [8, 14, 0]
    assert any(item.token != item.original for item in shown[0])
    assert all(0 < item.probability < 1 for item in shown[0])
    assert replaced_tokens.render(shown[2], color=True) == ""


def test_many_sentences_are_computed_in_batches(make_config, tiny_data, monkeypatch):
    """With the replacements of one batch of all, whose logits would not fit into memory."""
    vocabulary = load_vocabulary(tiny_data / "vocab.txt", "--vocab_file")
    tokenizer = Tokenizer(vocabulary, True, True)
    model = build_model(make_config(mask_prob=0.5), special_token_ids(vocabulary))
    sentences = ["w1 w2 w3 w4 w5 w6 w7 w8"] * 70
    sizes: list[int] = []
    encode = replaced_tokens.encode

    def note(vocabulary, tokenizer, texts, length):
        sizes.append(len(texts))
        return encode(vocabulary, tokenizer, texts, length)

    monkeypatch.setattr(replaced_tokens, "encode", note)
    monkeypatch.setattr(replaced_tokens, "_BATCH_TOKENS", 32 * 16)
    shown = replaced_tokens.inspect_sentences(model, vocabulary, tokenizer, sentences, 0)
    monkeypatch.setattr(replaced_tokens, "_BATCH_TOKENS", 70 * 16)
    at_once = replaced_tokens.inspect_sentences(model, vocabulary, tokenizer, sentences, 0)
    assert sizes == [32, 32, 6, 70]
    for ours, theirs in zip(shown, at_once, strict=True):
        assert [item.token for item in ours] == [item.token for item in theirs]


def test_shows_sentences_from_the_newest_checkpoint(make_config, capsys):
    settings = {"num_train_steps": 2, "objective": "electra_15"}
    config = make_config(**settings)
    pretraining_runs.train(config, discard)
    said: list[str] = []
    warn_once.cache_clear()
    replaced_tokens.show(
        make_config(**settings, mask_prob=0.3, disc_weight=0.0),
        ["w1 w2 w3", "w4", "w5 " * 14, "w6 " * 15],
        token_counts=training_records(config).token_counts,
        color=False,
        print_fn=said.append,
    )
    assert f"(step 2, {config.model_dir}/ckpt-2" in said[0]
    assert sum("most suspected: " in line for line in said) == 4
    warned = capsys.readouterr().err
    assert "1 of 4 sentences have more than 14 tokens" in warned
    assert "not replaced as in training: mask_prob: 0.15 before, 0.3 now" in warned
    assert "not train the discriminator, so its suspicions are meaningless" in warned
    assert "--objective=electra_15 has trained the discriminator on masked tokens" in warned


def test_a_model_without_discriminator_is_refused(make_config):
    config = make_config(electra_objective=False)
    with pytest.raises(UserError, match="no discriminator"):
        replaced_tokens.show(
            config, ["w1"], token_counts=lambda vocab_size: np.ones(vocab_size), color=False
        )


@pytest.mark.usefixtures("unfused")
def test_a_discriminator_that_is_not_trained_yet_is_told(make_config, tiny_data):
    config = make_config(**TWO_STAGE)
    vocabulary = load_vocabulary(tiny_data / "vocab.txt", "--vocab_file")
    model = build_model(config, special_token_ids(vocabulary))
    with pytest.raises(UserError, match=r"--objective=two_stage: .* is not trained yet"):
        replaced_tokens.inspect_sentences(
            model, vocabulary, Tokenizer(vocabulary, True, True), ["w1"], 0
        )
