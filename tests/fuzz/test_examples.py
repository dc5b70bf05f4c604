"""Building of examples, and masking, of any tokens."""

import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from electra_tf.config.hyperparameters import parse_hparams
from electra_tf.masking.base import TokenStatistics
from electra_tf.masking.learned import LearnedMasking
from electra_tf.masking.masked_batch import mask
from electra_tf.masking.span import SpanMasking
from electra_tf.masking.strategic import StrategicMasking
from electra_tf.masking.token import TokenMasking
from electra_tf.masking.whole_word import WholeWordMasking
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from pretrain_data.examples.example_builder import ExampleBuilder
from pretrain_data.examples.packing_builder import PackingExampleBuilder
from pretrain_data.examples.trimming_builder import TrimmingExampleBuilder
from tests.fuzz.inputs import outcome, tries

CLS, SEP, MASK = 2, 3, 4
SPECIAL = SpecialTokenIds(cls=CLS, sep=SEP, mask=MASK)
# Special tokens within a text, which only a strange vocabulary makes, are not among them.
token_ids = st.integers(5, 4095) | st.sampled_from([1, 100, 4095])
documents = st.lists(
    st.lists(st.lists(token_ids, max_size=40), max_size=8), min_size=1, max_size=5
)
BUILDERS = {
    "plain": ExampleBuilder,
    "packing": PackingExampleBuilder,
    "trimming": TrimmingExampleBuilder,
}


def build(kind, vocabulary, documents, max_length, seed, cuts):
    builder = BUILDERS[kind](vocabulary, max_length, random.Random(seed))
    examples = []
    for document in documents:
        for line in document:
            if cuts and line:
                examples += builder.add_line(line[: len(line) // 2], complete=False)
                line = line[len(line) // 2 :]
            examples += builder.add_line(line)
        examples += builder.end_document()
    return builder, examples + builder.finish()


@tries(
    100,
    kind=st.sampled_from(list(BUILDERS)),
    documents=documents,
    max_length=st.integers(5, 70),
    seed=st.integers(0, 2**32 - 1),
    cuts=st.booleans(),
)
def test_examples(vocabulary, kind, documents, max_length, seed, cuts):
    cuts = cuts and kind != "trimming"
    builder, examples = build(kind, vocabulary, documents, max_length, seed, cuts)
    given = [token for document in documents for line in document for token in line]
    kept = []
    for example in examples:
        ids = list(example.input_ids)
        assert len(ids) <= max_length
        assert ids[0] == CLS
        assert ids[-1] == SEP
        text = [token for token in ids if token not in (CLS, SEP)]
        assert len(text) == len(ids) - example.num_special > 0
        kept += text
    if kind == "trimming":
        assert len(given) == len(kept) + sum(builder.dropped_tokens.values())
    else:
        assert kept == given
        assert not builder.dropped_tokens
    assert builder.num_documents == sum(1 for document in documents if document)
    again = build(kind, vocabulary, documents, max_length, seed, cuts)[1]
    assert [list(e.input_ids) for e in again] == [list(e.input_ids) for e in examples]


VOCAB_SIZE, FIRST_CONTINUATION, ROWS, LENGTH = 30, 20, 4, 24
CONTINUES = np.arange(VOCAB_SIZE) >= FIRST_CONTINUATION
COUNTS = np.arange(VOCAB_SIZE) ** 3
STRATEGIES = {
    "token": TokenMasking,
    "whole_word": WholeWordMasking,
    "span": SpanMasking,
    "strategic": StrategicMasking,
}
masked_rows = st.lists(
    st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=LENGTH), min_size=ROWS, max_size=ROWS
)


@tries(
    40,
    name=st.sampled_from([*STRATEGIES]),
    rows=masked_rows,
    mask_prob=st.sampled_from([1e-6, 0.15, 0.4, 0.5, 0.999]),
    largest=st.sampled_from([1, 3, 12, 24]),
    seed=st.integers(0, 2**31),
    step=st.integers(0, 2**40),
)
def test_masks(name, rows, mask_prob, largest, seed, step):
    lengths = np.array([len(row) for row in rows])
    ids = np.array([row + [0] * (LENGTH - len(row)) for row in rows], np.int32)
    input_mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    inputs = PretrainInputs(*map(tf.constant, (ids, input_mask, 0 * ids)))
    strategy = STRATEGIES[name](STRATEGIES[name].Hparams(), TokenStatistics(CONTINUES, COUNTS))

    def masked():
        return mask(
            inputs,
            SPECIAL,
            randomness.make_key(seed, step, "masking"),
            mask_prob=mask_prob,
            max_predictions_per_seq=largest,
            strategy=strategy,
        )

    result, again = masked(), masked()
    for field, same in zip(tf.nest.flatten(result), tf.nest.flatten(again), strict=True):
        assert np.array_equal(field, same)
    new_ids = result.input_ids.numpy()
    positions, weights = (
        x.numpy() for x in (result.masked_lm_positions, result.masked_lm_weights)
    )
    originals = result.masked_lm_ids.numpy()
    candidates = (input_mask > 0) & ~np.isin(ids, (CLS, SEP, MASK))
    for row in range(ROWS):
        chosen = positions[row][weights[row] > 0]
        assert len(set(chosen)) == len(chosen) <= largest
        assert candidates[row][chosen].all()
        assert (originals[row][weights[row] > 0] == ids[row][chosen]).all()
        untouched = np.setdiff1d(np.arange(LENGTH), chosen)
        assert (new_ids[row][untouched] == ids[row][untouched]).all()
        wanted = min(largest, max(1, round(float(np.float32(mask_prob) * lengths[row]))))
        assert len(chosen) <= wanted
        assert bool(len(chosen)) == candidates[row].any()
        if name != "whole_word":
            assert len(chosen) == min(wanted, candidates[row].sum())
        else:
            check_words(ids[row], candidates[row], set(chosen))


def check_words(ids, candidates, chosen):
    """No word is masked in part, unless none is masked as a whole."""
    words, current = [], []
    for position, token in enumerate(ids):
        if not candidates[position]:
            current = []
            continue
        if not (current and CONTINUES[token]):
            current = []
            words.append(current)
        current.append(position)
    whole = [word for word in words if set(word) <= chosen]
    part = [word for word in words if set(word) & chosen and not set(word) <= chosen]
    assert not part or (not whole and len(part) == 1)


@pytest.mark.parametrize(
    ("strategy", "given"),
    [
        *((SpanMasking, {"p": p}) for p in (0.0, 1.0, -1.0, 2.0, float("nan"), 1, "x", True)),
        *((SpanMasking, {"max_words": n}) for n in (0, -1, 10**30, 1.5)),
        *((LearnedMasking, {"head_weight": w}) for w in (-1.0, float("inf"), 1e31)),
        *((StrategicMasking, {"power": w}) for w in (float("nan"), float("inf"), None, [])),
    ],
)
def test_hyperparameters_of_masking_that_cannot_be(strategy, given):
    error = outcome(parse_hparams, strategy.Hparams, given, "--masking_hparams")
    assert f"{next(iter(given))} in --masking_hparams must be" in str(error)
