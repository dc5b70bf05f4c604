import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.base import PREDICT, SplitData
from finetune.tasks.tagging.examples import ConllSource, TaggingExample, collect_labels
from finetune.tasks.tagging.featurize import CUT_WORDS
from finetune.tasks.tagging.task import TaggingTask, make_tagging_task
from tests.finetune.tasks.text.tiny import make_config, make_tokenizer, write

TRAIN = ["a NN B-X", "b VB I-X", "c NN O", "", "-DOCSTART- -X- O", "", "d NN B-Y"]
DEV = ["a NN B-X", "b VB I-X", "c NN B-Z", "d NN O", "", ""]


@pytest.fixture
def make_task(tmp_path):
    """Returns a function that builds a task over `TRAIN` and `DEV`."""

    def make_task(name="chunk", train=TRAIN, dev=DEV, **given):
        write(tmp_path / name / "train.txt", *train)
        write(tmp_path / name / "dev.txt", *dev)
        config = make_config(tmp_path, **given)
        return make_tagging_task(config, name, make_tokenizer(tmp_path))

    return make_task


def load(task, split):
    report = DataReport(task.name, split)
    examples = task.load(split, report)
    rows = task.featurize(examples, is_training=split == "train", report=report)
    return SplitData(split, examples, rows), dict(report.problems)


def outputs_of(task, data, tags):
    """Makes outputs that predict `tags` for the words of each row, and junk behind them."""
    return [
        {
            "loss": np.float32(1.5),
            "predictions": np.array([*(task.labels.index(tag) for tag in of_row), 0, 0]),
        }
        for of_row in tags
    ]


def test_spans_in_bioes(make_task):
    task = make_task()
    # Also those of dev; Z occurs nowhere else.
    assert task.labels == ("B-X", "E-X", "O", "S-Y", "S-Z")
    data, problems = load(task, "train")
    assert [e.words for e in data.examples] == [("a", "b", "c"), ("d",)]
    assert [e.eid for e in data.examples] == [0, 1]
    assert [row["chunk_labels"].tolist() for row in data.rows] == [[0, 1, 2], [3]]
    assert problems == {}


def test_parts_of_speech(make_task):
    task = make_task("pos")
    assert (task.labels, task.level) == (("NN", "VB"), "token")
    data, _ = load(task, "dev")
    assert data.rows[0]["pos_labels"].tolist() == [0, 1, 0, 0]
    assert [spec.name for spec in task.feature_specs if spec.dtype == "float32"] == [
        "pos_labels_mask"
    ]


def test_scores_of_spans(make_task):
    task = make_task()
    data, _ = load(task, "dev")
    outputs = outputs_of(task, data, [["B-X", "E-X", "O", "O"]])
    scores = task.score(data, outputs)
    assert scores.metrics == pytest.approx(
        {
            "precision": 100,
            "recall": 50,
            "f1": 200 / 3,
            "accuracy": 75,
            "accuracy_seen": 75,
            "loss": 1.5 / 4,
        }
    )
    assert (scores.main, scores.main_value) == ("f1", pytest.approx(200 / 3))


def test_cut_words_count_as_missed(make_task):
    task = make_task(max_seq_length=8, dev=[f"{w}xy NN B-X" for w in "abc"])
    data, problems = load(task, "dev")
    assert problems == {CUT_WORDS: [{"eid": 0, "words": 1}]}
    outputs = outputs_of(task, data, [["S-X", "S-X"]])
    metrics = task.score(data, outputs).metrics
    assert metrics["precision"] == 100
    assert metrics["recall"] == metrics["accuracy"] == pytest.approx(200 / 3)
    assert metrics["accuracy_seen"] == 100
    assert metrics["loss"] == 0.75
    (prediction,) = task.predictions(data, outputs)
    assert prediction["tags"] == ["B-X", "B-X", None]


def test_authors_truncation_drops_cut_words_from_the_gold(make_task):
    given = {"max_seq_length": 8, "authors_tagging_truncation": True}
    task = make_task(dev=[f"{w} NN B-X" for w in "abc"], **given)
    data, problems = load(task, "dev")
    assert problems == {CUT_WORDS: [{"eid": 0, "words": 1}]}
    metrics = task.score(data, outputs_of(task, data, [["S-X", "S-X"]])).metrics
    assert metrics["recall"] == metrics["accuracy"] == 100


def test_scores_of_tokens(make_task):
    task = make_task("pos")
    data, _ = load(task, "dev")
    scores = task.score(data, outputs_of(task, data, [["NN", "NN", "NN", "VB"]]))
    expected = {"accuracy": 50, "accuracy_seen": 50, "loss": 1.5 / 4}
    assert scores.metrics == pytest.approx(expected)
    assert scores.confusion.tolist() == [[2, 1], [1, 0]]
    assert scores.labels == ("NN", "VB")
    (error,) = task.errors(data, outputs_of(task, data, [["NN", "NN", "NN", "VB"]]))
    words = data.examples[0].words
    assert error.text == " ".join(words)
    assert error.gold == f"{words[1]}: VB, {words[3]}: NN"
    assert error.predicted == f"{words[1]}: NN, {words[3]}: VB"
    assert task.errors(data, outputs_of(task, data, [["NN", "VB", "NN", "NN"]])) == []


def test_predictions(make_task):
    task = make_task()
    data, _ = load(task, "dev")
    (prediction,) = task.predictions(data, outputs_of(task, data, [["B-X", "E-X", "O", "S-Y"]]))
    assert prediction == {
        "eid": 0,
        "words": ["a", "b", "c", "d"],
        "spans": [
            {"start": 0, "end": 1, "type": "X", "text": "a b"},
            {"start": 3, "end": 3, "type": "Y", "text": "d"},
        ],
        "tags": ["B-X", "I-X", "O", "B-Y"],
    }


def test_predictions_of_sentences_with_ids_name_them(make_task):
    task = make_task("pos")
    data, _ = load(task, "dev")
    named = [dataclasses.replace(example, guid="s1") for example in data.examples]
    outputs = outputs_of(task, data, [["NN", "NN", "NN", "VB"]])
    (prediction,) = task.predictions(dataclasses.replace(data, examples=named), outputs)
    assert prediction == {
        "eid": 0,
        "id": "s1",
        "words": ["a", "b", "c", "d"],
        "tags": ["NN", "NN", "NN", "VB"],
    }


def test_degenerate(make_task):
    task = make_task()
    data, _ = load(task, "dev")
    same = outputs_of(task, data, [["O", "O", "O", "O"]])
    assert task.degenerate(data, same) == "predicts one tag only (O)"
    assert task.degenerate(data, outputs_of(task, data, [["O", "O", "S-Y", "O"]])) is None


def test_files_without_tags(make_task, tmp_path):
    task = make_task()
    write(tmp_path / "chunk" / "test.txt", "a", "b", "", "c")
    data, _ = load(task, "test")
    assert [(e.words, e.tags) for e in data.examples] == [(("a", "b"), ()), (("c",), ())]
    assert data.rows[0]["chunk_labels"].tolist() == [0, 0]
    report = DataReport("chunk", "predict")
    path = str(tmp_path / "chunk" / "test.txt")
    examples = make_task(predict_file=path).load(PREDICT, report)
    assert [e.words for e in examples] == [("a", "b"), ("c",)]
    assert make_task().labels == task.labels


@pytest.mark.parametrize(
    ("name", "lines", "messages"),
    [
        ("chunk", ["a NN B-X", "b I-X"], ["line 2 has 2 columns", "has 3"]),
        (
            "chunk",
            ["", "a NN B-X", "b VB NP"],
            ["sentence at line 2: the tag 'NP' of the word 'b'"],
        ),
        ("chunk", ["a", "b"], ["line 1: 1 column", "a column of tags"]),
        ("chunk", [""], ["is empty"]),
        ("chunk", ["-DOCSTART- -X- O"], ["no examples"]),
    ],
)
def test_bad_input(make_task, tmp_path, name, lines, messages):
    with pytest.raises(UserError) as raised:
        make_task(name, train=lines)
    for message in (str(tmp_path / name / "train.txt"), *messages):
        assert message in str(raised.value)


def test_missing_files(tmp_path):
    with pytest.raises(UserError, match=r"No such file: .*ner/train\.txt \(the train split"):
        make_tagging_task(make_config(tmp_path), "ner", None)
    with pytest.raises(UserError, match="no split 'other'"):
        ConllSource({"train": "x"}).split_files("other")


def test_invalid_utf8(make_task, tmp_path):
    task = make_task()
    (tmp_path / "chunk" / "dev.txt").write_bytes(b"a NN O\ncaf\xe9 NN O\n")
    with pytest.raises(UserError, match=r"dev\.txt: line 2 is not UTF-8"):
        task.load("dev", DataReport("chunk", "dev"))


def test_labels_given_and_unknown_ones(tmp_path):
    given = (make_config(tmp_path), "mine", make_tokenizer(tmp_path), ConllSource({}))
    task = TaggingTask(*given, labels=["VB", "NN"], level="token")
    assert task.label_ids(TaggingExample(0, ("a", "b"), ("NN", "VB"))) == [1, 0]
    example = TaggingExample(0, ("a",), ("NNP",), "file.txt, line 7")
    with pytest.raises(UserError, match=r"file.txt, line 7: unknown tag 'NNP'.*mean 'NN'"):
        task.label_ids(example)
    with pytest.raises(UserError, match="must be span or token, not 'word'"):
        TaggingTask(*given, labels=["O"], level="word")
    with pytest.raises(UserError, match="must be accuracy, not 'f1'"):
        TaggingTask(*given, labels=["O"], level="token", main_metric="f1")
    span_task = TaggingTask(*given, labels=["O"], main_metric="accuracy")
    assert (span_task.level, span_task.main_metric) == ("span", "accuracy")


def test_the_same_labels_from_iob1_and_bioes(tmp_path):
    write(tmp_path / "iob1.txt", "a I-X", "b B-X", "c I-X", "", "d O")
    write(tmp_path / "bioes.txt", "a S-X", "b B-X", "c E-X", "", "d O")
    files = [{"train": str(tmp_path / name)} for name in ("iob1.txt", "bioes.txt")]
    found = [collect_labels(ConllSource(of_split), "span") for of_split in files]
    assert found == [("B-X", "E-X", "O", "S-X")] * 2


def test_head(make_task):
    task = make_task("pos")
    with keras.name_scope("task_specific"):
        config = EncoderConfig(hidden_size=2, num_attention_heads=1)
        head = task.build_head(config, keras.DTypePolicy("float32"))
    assert [v.path for v in head.trainable_variables] == [
        "task_specific/pos/dense/kernel",
        "task_specific/pos/dense/bias",
    ]
    head.dense.kernel.assign([[1.0, 0.0], [0.0, 1.0]])
    head.dense.bias.assign([0.0, 0.5])
    sequence_output = tf.constant([[[9.0, 9], [1, 2], [9, 9], [4, 1]]])
    features = {
        "pos_labeled_positions": tf.constant([[1, 3, 0, 0]]),
        "pos_labels": tf.constant([[0, 0, 0, 0]]),
        "pos_labels_mask": tf.constant([[1.0, 1, 0, 0]]),
    }
    losses, outputs = head(sequence_output, features)
    np.testing.assert_allclose(outputs["logits"][0, :2], [[1, 2.5], [4, 1.5]])
    assert outputs["predictions"].numpy()[0, :2].tolist() == [1, 0]
    expected = np.log1p(np.exp(1.5)) + np.log1p(np.exp(-2.5))
    np.testing.assert_allclose(losses, [expected], rtol=1e-5)
