"""Tests of users' tagged sentences."""

import json

import pytest

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.task_kinds import LEVELS, TAGGING
from finetune.data.features import DataReport

SPANS = "who O\nwas O\nhere B-LOC\n\na B-PER\nb I-PER\n"


def load(task, split):
    return task.load(split, DataReport("mine", split))


def records(*pairs):
    return "\n".join(json.dumps({"words": words, "tags": tags}) for words, tags in pairs)


def test_sentences_of_conll(make_task):
    task = make_task({"train.conll": SPANS, "dev.conll": "d I-LOC\n"}, "tagging")
    first, second = load(task, "train")
    assert (first.words, first.tags) == (("who", "was", "here"), ("O", "O", "B-LOC"))
    assert second.eid == 1
    assert task.labels == (
        *("B-LOC", "B-PER", "E-LOC", "E-PER", "I-LOC", "I-PER", "O", "S-LOC", "S-PER"),
    )
    assert (task.level, task.main_metric) == ("span", "f1")
    row = task.featurize([second], is_training=True, report=DataReport("mine", "train"))[0]
    assert [task.labels[i] for i in row["mine_labels"]] == ["B-PER", "E-PER"]


def test_columns_of_conll_by_index(make_task):
    content = "1 good JJ\n2 a DT\n\n1 b NN\n"
    task = make_task(
        {"train.conll": content, "dev.conll": content},
        "tagging",
        columns={"words": 1, "tags": 2},
        level="token",
    )
    assert task.labels == ("DT", "JJ", "NN")
    assert load(task, "dev")[0].words == ("good", "a")
    assert task.main_metric == "accuracy"


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("train.jsonl", records((["a", "b"], ["X", "Y"]), (["c"], ["X"])), {}),
        ("train.tsv", "words\ttags\na b\tX Y\nc\tX\n", {}),
        ("train.csv", "t,w\nX Y,a b\nX,c\n", {"words": "w", "tags": "t"}),
    ],
)
def test_lists_and_cells(make_task, name, content, columns):
    task = make_task({name: content}, "tagging", level="token", columns=columns)
    examples = [*load(task, "train"), *load(task, "dev")]
    assert {(e.words, e.tags) for e in examples} == {(("a", "b"), ("X", "Y")), (("c",), ("X",))}
    assert len(load(task, "dev")) == 1


def test_labels_of_spans_may_be_given_as_types_or_tags(make_task):
    for labels in (["PER", "LOC"], ["O", "B-LOC", "I-LOC", "B-PER"]):
        task = make_task({"train.conll": SPANS}, "tagging", labels=labels)
        assert len(task.labels) == 9
    # Types that look like tags, beside others.
    mails = "a B-E-mail\nb B-X\nc O\n"
    files = {"train.conll": mails, "dev.conll": mails}
    task = make_task(files, "tagging", labels=["E-mail", "X", "O"])
    assert len(load(task, "train")) == 1
    assert {label.partition("-")[2] for label in task.labels} == {"E-mail", "X", ""}
    trains = {name: text.replace("-X", "-S-Bahn") for name, text in files.items()}
    task = make_task(trains, "tagging", labels=["E-mail", "S-Bahn"])
    assert {label.partition("-")[2] for label in task.labels} == {"E-mail", "S-Bahn", ""}


def test_listed_types_without_a_training_word_are_told(make_task, capsys):
    warn_once.cache_clear()
    for labels in (["PER", "LOC"], ["O", "B-LOC", "I-LOC", "B-PER"]):
        load(make_task({"train.conll": SPANS}, "tagging", labels=labels), "train")
    assert not capsys.readouterr().err
    load(make_task({"train.conll": SPANS}, "tagging", labels=["PER", "ORG", "LOC"]), "train")
    assert "train.conll: no example has 'ORG' of the \"labels\"" in capsys.readouterr().err


def test_words_to_predict_need_no_tags(make_task, tmp_path):
    config = {"predict_file": str(tmp_path / "new.conll")}
    files = {"train.conll": SPANS, "test.conll": "a\n", "new.conll": "good\na\n\nb\n"}
    task = make_task(files, "tagging", config)
    examples = load(task, "predict")
    assert [(e.words, e.tags) for e in examples] == [(("good", "a"), ()), (("b",), ())]
    rows = task.featurize(examples, is_training=False, report=DataReport("mine", "predict"))
    assert [len(row["mine_labeled_positions"]) for row in rows] == [2, 1]
    assert load(task, "test")[0].words == ("a",)


@pytest.mark.parametrize("level", LEVELS)
def test_any_metric_of_the_level_can_be_the_main_one(make_task, level):
    files = {"train.conll": SPANS}
    metrics = TAGGING.main_metrics(level)
    assert make_task(files, "tagging", level=level).main_metric == metrics[0]
    for metric in metrics:
        task = make_task(files, "tagging", level=level, metric=metric)
        assert task.main_metric == metric


@pytest.mark.parametrize(
    ("name", "content", "changes", "message"),
    [
        (
            "train.jsonl",
            records((["a", "b"], ["B-X"])),
            {},
            r"train\.jsonl: line 1: 2 words but 1 tags; each word needs a tag",
        ),
        (
            "train.conll",
            "a NN\n",
            {},
            r"line 1: the tag 'NN' of the word 'a' must be O.*\"token\"",
        ),
        ("train.conll", "a O\nb O\n", {}, "no word is part of a span, so there is nothing"),
        (
            "train.conll",
            "a X\nb X\n",
            {"level": "token"},
            r"all 2 words have the tag 'X', so there is nothing",
        ),
        ("train.conll", SPANS.replace(" ", ","), {"level": "token"}, "are in the same column"),
        (
            "train.conll",
            SPANS,
            {"columns": {"words": 0, "tags": 1, "id": 0}},
            'sentences of a conll file have no "id" column',
        ),
    ],
)
def test_bad_train_files_are_refused(make_task, name, content, changes, message):
    with pytest.raises(UserError, match=message):
        make_task({name: content}, "tagging", **changes)


def test_unknown_tags_are_named(make_task):
    files = {"train.conll": SPANS, "dev.conll": "a O\n\nb B-ORG\n"}
    task = make_task(files, "tagging")
    with pytest.raises(
        UserError, match=r"dev\.conll: line 3: label 'ORG' is not in .*LOC, PER"
    ):
        load(task, "dev")
    task = make_task(files, "tagging", labels=["LOC", "PER"])
    with pytest.raises(UserError, match=r"line 3: unknown label 'ORG'; .* labels LOC, PER"):
        load(task, "dev")
