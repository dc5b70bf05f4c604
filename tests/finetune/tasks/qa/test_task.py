"""The task as a whole: from files to scores and submissions."""

import dataclasses
import gzip
import json
import pathlib

import numpy as np
import pytest

from electra_tf.config.encoder import EncoderConfig
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.base import SplitData
from finetune.tasks.qa.squad_files import write_squad_outputs
from finetune.tasks.qa.task import QATask, make_qa_task
from tests.finetune.tasks.qa.conftest import ask

FIRST = "The old bridge was built by Anna Berg."
SECOND = "Her two sons stands here."


@pytest.fixture
def raw_squad(write_squad, tmp_path) -> str:
    folder = tmp_path / "raw"
    for name, questions in {
        "train": [ask("t", "Anna", 28)],
        "dev": [ask("a", "Anna Berg", 28), ask("b")],
        "test": [{"id": "u", "question": "when ?"}],
    }.items():
        write_squad(
            (FIRST, questions),
            (SECOND, [ask("c", "sons", 8)] if name == "dev" else []),
            path=folder / "squad" / f"{name}.json",
        )
    return str(folder)


def load(task: QATask, split: str, report: DataReport | None = None) -> SplitData:
    report = report or DataReport(task.name, split)
    examples = task.load(split, report)
    rows = task.featurize(examples, is_training=split == "train", report=report)
    return SplitData(split, examples, rows)


def answers(data: SplitData, spans: list[tuple[int, int]], nulls: list[float]) -> list[dict]:
    """Returns outputs that give each row one span of its context, and a loss of 0.5."""
    outputs = []
    for row, (start, end), null in zip(data.rows, spans, nulls, strict=True):
        first = int(np.argmax(row["segment_ids"]))
        outputs.append(
            {
                "loss": np.float32(0.5),
                "answerable_logit": np.float32(null),
                "start_logits": np.zeros(len(row["input_ids"]), np.float32),
                "start_top_index": np.array([first + start]),
                "start_top_log_probs": np.zeros(1, np.float32),
                "end_top_index": np.array([[first + end]]),
                "end_top_log_probs": np.zeros((1, 1), np.float32),
            }
        )
    return outputs


def test_squad_2(make_config, tokenizer, raw_squad):
    task = make_qa_task(make_config(raw_data_dir=raw_squad), "squad", tokenizer)
    data = load(task, "dev")
    # Dev rows hold gold positions, so that their loss means something.
    assert [row["squad_start_positions"] for row in data.rows] == [12, 0, 8]
    assert [row["squad_is_impossible"] for row in data.rows] == [0, 1, 0]
    spans = [(6, 7), (1, 1), (1, 2)]
    outputs = answers(data, spans, [-4.0, 1.0, -4.0])
    scores = task.score(data, outputs)
    assert scores.main == "f1"
    assert scores.main_value == pytest.approx(100 * (2 + 2 / 3) / 3)
    assert scores.metrics["exact"] == pytest.approx(200 / 3)
    assert scores.metrics["NoAns_f1"] == 100
    assert scores.metrics["loss"] == 0.5
    (error,) = task.errors(data, outputs)
    assert error.text == data.examples[2].question_text
    assert error.loss == pytest.approx(1 / 3)
    predictions = task.predictions(data, outputs)
    assert [(p["id"], p["answer"]) for p in predictions] == [
        ("a", "Anna Berg"),
        ("b", ""),
        ("c", "two sons"),
    ]
    assert predictions[1]["nbest"][0]["text"] == "old"
    assert predictions[1]["question"] == "who built it ?"
    json.dumps(predictions)
    assert task.degenerate(data, outputs) is None
    all_null = answers(data, spans, [5.0] * 3)
    assert task.degenerate(data, all_null) == "predicts the answer '' for every question"
    unanswerable = [dataclasses.replace(each, answers=()) for each in data.examples]
    assert task.degenerate(dataclasses.replace(data, examples=unanswerable), all_null) is None


@pytest.mark.parametrize("name", ["squad", "squadv1"])
def test_questions_of_the_same_id_are_scored_apart(
    make_config, tokenizer, write_squad, tmp_path, name
):
    path = tmp_path / "raw" / name / "dev.json"
    write_squad(
        (FIRST, [ask("same", "Anna Berg", 28)]), (SECOND, [ask("same", "sons", 8)]), path=path
    )
    config = make_config(raw_data_dir=str(tmp_path / "raw"))
    task = make_qa_task(config, name, tokenizer)
    data = load(task, "dev")
    scores = task.score(data, answers(data, [(6, 7), (3, 3)], [-4.0, -4.0]))
    # The first is right, the second wrong.
    assert scores.main_value == 50
    assert scores.metrics.get("total", 2) == 2


def test_each_split_has_its_file(make_config, tokenizer, raw_squad):
    task = make_qa_task(make_config(raw_data_dir=raw_squad), "squad", tokenizer)
    assert [e.qas_id for e in load(task, "train").examples] == ["t"]
    assert [e.qas_id for e in load(task, "test").examples] == ["u"]
    assert task.split_files("test") == [str(pathlib.Path(raw_squad) / "squad/test.json")]
    with pytest.raises(UserError, match="squad has no split 'diagnostic'"):
        task.split_files("diagnostic")


def test_a_file_to_predict(make_config, tokenizer, raw_squad):
    path = f"{raw_squad}/squad/test.json"
    task = make_qa_task(make_config(predict_file=path), "squad", tokenizer)
    assert task.split_files("predict") == [path]


def test_mrqa_files_may_be_compressed(make_config, tokenizer, tmp_path):
    folder = tmp_path / "raw/newsqa"
    folder.mkdir(parents=True)
    detected = [{"text": "Anna Berg", "char_spans": [[28, 36]]}]
    question = {"qid": "q", "question": "who ?", "answers": ["Berg"]}
    line = {"context": FIRST, "qas": [{**question, "detected_answers": detected}]}
    with gzip.open(folder / "dev.jsonl.gz", "wt") as file:
        file.write(json.dumps(line) + "\n")
    config = make_config(raw_data_dir=str(tmp_path / "raw"))
    task = make_qa_task(config, "newsqa", tokenizer)
    assert task.split_files("train") == [str(folder / "train.jsonl")]
    data = load(task, "dev")
    assert data.rows[0]["newsqa_start_positions"] == 10
    # Null odds are not asked where every question has an answer.
    outputs = answers(data, [(7, 7)], [9.0])
    assert task.score(data, outputs).metrics == {"exact_match": 100, "f1": 100, "loss": 0.5}
    assert task.predictions(data, outputs)[0]["answer"] == "Berg"


def test_a_compressed_file_beside_its_uncompressed_one_is_warned_of(
    make_config, tokenizer, tmp_path, capsys
):
    folder = tmp_path / "raw/newsqa"
    folder.mkdir(parents=True)
    for name in ("train.jsonl", "train.jsonl.gz", "dev.jsonl.gz"):
        (folder / name).touch()
    task = make_qa_task(make_config(raw_data_dir=str(tmp_path / "raw")), "newsqa", tokenizer)
    assert task.split_files("train") == [str(folder / "train.jsonl")]
    warned = capsys.readouterr().err
    assert f"{folder}/train.jsonl.gz is not read, because {folder}/train.jsonl exists" in warned
    assert "dev" not in warned


def test_unknown_names_get_a_hint(make_config, tokenizer):
    with pytest.raises(UserError, match="Did you mean 'squad'"):
        make_qa_task(make_config(), "sqad", tokenizer)


def test_rows_that_are_not_in_place_are_refused(make_config, tokenizer, raw_squad):
    task = make_qa_task(make_config(raw_data_dir=raw_squad), "squad", tokenizer)
    data = load(task, "dev")
    outputs = answers(data, [(1, 1)] * 3, [0.0] * 3)
    swapped = SplitData("dev", data.examples, data.rows[::-1])
    with pytest.raises(ValueError, match="rows of a are not in place"):
        task.score(swapped, outputs)


def test_the_head_is_that_of_the_configuration(make_config, tokenizer, raw_squad):
    config = make_config(joint_prediction=False, answerable_weight=0.1, beam_size=7)
    task = make_qa_task(config, "squadv1", tokenizer)
    encoder = EncoderConfig(hidden_size=8, num_attention_heads=2)
    head = task.build_head(encoder, "float32")
    assert head.name == "squadv1"
    assert (head.joint_prediction, head.answerable_weight, head.beam_size) == (False, 0.1, 7)
    assert head.answerable is not None
    assert tuple(head.end.kernel.shape) == (8, 1)


def test_files_of_squad(make_config, tokenizer, raw_squad, tmp_path):
    task = make_qa_task(make_config(raw_data_dir=raw_squad), "squad", tokenizer)
    data = load(task, "dev")
    outputs = answers(data, [(6, 7), (1, 1), (2, 2)], [-4.0, 1.0, -4.0])
    paths = write_squad_outputs(str(tmp_path), "squad", task.predictions(data, outputs))
    content = {
        pathlib.Path(path).stem: json.loads(pathlib.Path(path).read_text()) for path in paths
    }
    assert content["squad_preds"] == {"a": "Anna Berg", "b": "old", "c": "sons"}
    assert content["squad_submission"] == {"a": "Anna Berg", "b": "", "c": "sons"}
    assert content["squad_null_odds"] == {"a": -4.0, "b": 1.0, "c": -4.0}
    assert content["squad_nbest"]["a"] == [
        {"text": "Anna Berg", "probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
    ]
    predictions = [{**p, "null_odds": None} for p in task.predictions(data, outputs)]
    paths = write_squad_outputs(str(tmp_path), "squad", predictions)
    assert [pathlib.Path(path).name for path in paths] == [
        "squad_preds.json",
        "squad_nbest.json",
    ]
    assert sorted(map(str, tmp_path.glob("squad_*.json"))) == sorted(paths)


def test_questions_that_the_files_of_squad_leave_out_are_warned_of(tmp_path, capsys):
    nbest = [{"text": "x", "probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}]
    predictions = [{"id": n, "answer": "x", "null_odds": None, "nbest": nbest} for n in "ab"]
    write_squad_outputs(str(tmp_path), "mine", predictions)
    assert capsys.readouterr().err == ""
    write_squad_outputs(str(tmp_path), "mine", [*predictions, predictions[0]])
    warning = f"{tmp_path}/mine_preds.json has no answer to 1 of 3 questions, because later"
    assert warning in capsys.readouterr().err
