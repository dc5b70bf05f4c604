"""Sliding windows over long texts, in Python and in the graph."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.text_inputs import pair_inputs
from finetune.data.features import DataReport
from finetune.tasks.base import SplitData
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.examples import TRUNCATED, InputExample, text_rows
from finetune.tasks.text.windows import (
    WINDOWED,
    Window,
    pool_by_owner,
    text_windows,
    window_rows,
    windowed_inputs,
)
from tests.finetune.tasks.text.tiny import (
    CLS,
    SEP,
    A,
    B,
    C,
    D,
    E,
    make_config,
    make_tokenizer,
)


def test_windows_of_one_text():
    assert text_windows(5, 0, 5, 2) == [Window(0, 5, 0, 0)]
    assert text_windows(9, 0, 5, 2) == [Window(i, i + 5, 0, 0) for i in (0, 2, 4)]
    assert text_windows(10, 0, 5, 4)[1:] == [Window(4, 9, 0, 0), Window(8, 10, 0, 0)]


def test_the_longer_text_of_a_pair_slides():
    assert text_windows(2, 8, 6, 3) == [Window(0, 2, i, min(i + 4, 8)) for i in (0, 3, 6)]
    assert text_windows(8, 2, 6, 9) == [Window(i, i + 4, 0, 2) for i in (0, 4)]
    # Half of the room is the most that the shorter one gets; the second of equals slides.
    assert text_windows(5, 5, 6, 9) == [Window(0, 3, 0, 3), Window(0, 3, 3, 5)]


def test_rows_of_windows(tmp_path):
    examples = [InputExample(4, "a b c d e", None, "x"), InputExample(7, "a b", "c d", "x")]
    report = DataReport("t", "dev")
    first, second = window_rows("t", examples, make_tokenizer(tmp_path), 6, 3, report)
    assert [row["input_ids"].tolist() for row in first] == [
        [CLS, A, B, C, D, SEP],
        [CLS, D, E, SEP],
    ]
    assert [row["t_eid"] for row in (*first, *second)] == [4, 4, 7]
    assert [row["input_ids"].tolist() for row in second] == [[CLS, A, SEP, C, D, SEP]]
    assert report.problems[WINDOWED][0] == {"eid": 4, "tokens": 5, "windows": 2}
    assert report.problems[TRUNCATED] == [{"eid": 7, "tokens": 2, "kept": 1}]


def test_short_texts_are_as_without_windows(tmp_path):
    examples = [InputExample(0, "a b", "c", "x"), InputExample(1, "d", "", "x")]
    arguments = ("t", examples, make_tokenizer(tmp_path), 8)
    windows = window_rows(*arguments, 4, DataReport("t", "dev"))
    for (row,), expected in zip(
        windows, text_rows(*arguments, DataReport("t", "dev")), strict=True
    ):
        assert {k: np.asarray(v).tolist() for k, v in row.items()} == {
            k: np.asarray(v).tolist() for k, v in expected.items()
        }


@pytest.mark.parametrize("stride", [1, 3, 50])
def test_the_graph_makes_the_same_windows(tmp_path, stride):
    tokenizer = make_tokenizer(tmp_path)
    generator = np.random.default_rng(stride)
    texts = [
        [" ".join(generator.choice(list("abcdef"), n)) for n in lengths]
        for lengths in (
            (1, 0),
            (30, 0),
            (3, 20),
            (20, 3),
            (9, 9),
            (15, 14),
            (2, 3),
            (5, 6),
            (9, 1),
        )
    ]
    examples = [InputExample(i, a, b, "x") for i, (a, b) in enumerate(texts)]
    rows = window_rows("t", examples, tokenizer, 12, stride, DataReport("t", "dev"))
    ids_a, ids_b = (
        tf.ragged.constant([ids.tolist() for ids in map(list_of, column)], tf.int32)
        for column in (
            tokenizer.tokenize([a for a, _ in texts]),
            tokenizer.tokenize([b for _, b in texts]),
        )
    )
    found = windowed_inputs(tokenizer.vocabulary, ids_a, ids_b, 12, stride)
    expected = [row for parts in rows for row in parts]
    assert found.owners.numpy().tolist() == [row["t_eid"] for row in expected]
    lengths = tf.reduce_sum(found.inputs.input_mask, axis=1)
    for name in ("input_ids", "segment_ids"):
        values = tf.RaggedTensor.from_tensor(getattr(found.inputs, name), lengths).to_list()
        assert values == [row[name].tolist() for row in expected]
    singles = windowed_inputs(tokenizer.vocabulary, ids_a[:2], None, 12, stride)
    count = sum(row["t_eid"] < 2 for row in expected)
    assert singles.owners.numpy().tolist() == [row["t_eid"] for row in expected[:count]]
    # Texts that fit are framed as everywhere else.
    short = pair_inputs(tokenizer.vocabulary, ids_a[6:7], ids_b[6:7], 12)
    alone = windowed_inputs(tokenizer.vocabulary, ids_a[6:7], ids_b[6:7], 12, stride)
    assert short.input_ids.numpy().tolist() == alone.inputs.input_ids.numpy().tolist()


def list_of(ids) -> np.ndarray:
    return np.asarray(ids, np.int32)


class Source:
    """Two texts, the first of which has two windows."""

    dev_splits, test_splits, has_pairs = ("dev",), (), False
    examples = (
        InputExample(3, "a b c d e f a", None, "no"),
        InputExample(5, "f", None, "yes"),
    )


@pytest.mark.parametrize(("pooling", "first"), [("mean", [1.0, 1.5]), ("max", [3.0, 2.0])])
def test_logits_are_pooled_by_example(tmp_path, pooling, first):
    tokenizer = make_tokenizer(tmp_path)
    config = make_config(tmp_path, long_text="windows", window_pooling=pooling, window_stride=2)
    task = ClassificationTask(config, "mine", tokenizer, Source(), labels=("no", "yes"))
    examples = Source.examples
    report = DataReport("mine", "dev")
    rows = task.featurize(examples, is_training=True, report=report)
    assert [row["mine_eid"] for row in rows] == [3, 3, 5]
    assert [row["mine_label_ids"] for row in rows] == [0, 0, 1]
    data = SplitData("dev", examples, rows)
    logits = np.array([[3.0, 1.0], [-1.0, 2.0], [0.0, 1.0]], np.float32)
    outputs = [{"logits": x, "predictions": x.argmax(), "loss": 9.0} for x in logits]
    pooled = np.array([first, [0.0, 1.0]])
    gold = np.array([0, 1])
    losses = np.log(np.exp(pooled).sum(axis=1)) - pooled[[0, 1], gold]
    scores = task.score(data, outputs)
    right = (pooled.argmax(axis=1) == gold).mean()
    expected = {"accuracy": 100 * right, "loss": losses.mean()}
    assert scores.metrics == pytest.approx(expected)
    assert scores.confusion.sum() == 2
    predictions = task.predictions(data, outputs)
    assert [p["eid"] for p in predictions] == [3, 5]
    assert predictions[0]["prediction"] == ("no", "yes")[pooled[0].argmax()]
    wrong = [(error.text, error.gold) for error in task.errors(data, outputs)]
    assert wrong == [("a b c d e f a", "no")] * int(pooled[0].argmax() != 0)
    np.testing.assert_array_equal(task.class_logits(data, outputs)[0], pooled)
    # An ensemble of one model, or of equal ones, answers as the model does.
    one = task.pooled(data, outputs)
    together = [task.average([each, each]) for each in one]
    assert len(together) == len(rows)
    assert task.score(data, together).metrics == pytest.approx(expected)
    graph = pool_by_owner(tf.constant(logits), tf.constant([0, 0, 1]), pooling)
    np.testing.assert_allclose(graph, pooled)
