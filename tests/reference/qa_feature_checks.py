"""Compares the examples and features of question answering with the authors'."""

import functools
import json
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from finetune.config.task_kinds import QA
from finetune.data.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS, DataReport
from finetune.tasks.qa.examples import QAExample, QuestionCollector
from finetune.tasks.qa.featurize import EIDS_PER_EXAMPLE, QAFeaturizer, Window
from finetune.tasks.qa.readers import read_questions
from finetune.tasks.qa.task import SQUAD_TASKS, SQUAD_V2
from tests.reference.qa_settings import answerable, make_config, make_tokenizer
from tests.reference.result import CheckResult, Comparison, guarded


def check_qa_features(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields one result for each task and split of question answering in a set."""
    groups: dict[tuple, list[dict]] = {}
    with open(reference_dir / "features.jsonl", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["task"] in QA.built_in:
                key = (record["task"], record["split"], json.dumps(record["config"]))
                groups.setdefault(key, []).append(record)
    for (task_name, split, _), records in groups.items():
        yield from guarded(
            f"features {task_name} {split}",
            functools.partial(_check_features, reference_dir, vocab_file, records),
        )


def _check_features(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path, records: list[dict]
) -> Iterator[CheckResult]:
    name, split = records[0]["task"], records[0]["split"]
    comparison = Comparison(f"features {name} {split}")
    config = make_config(records[0]["config"])
    tokenizer = make_tokenizer(vocab_file, config)
    featurizer = QAFeaturizer(config, name, tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = _write_raw(reference_dir, pathlib.Path(folder), name)
        examples = _load(path, name, split)
    ours = {e.eid: e for e in examples}
    rows: dict[int, list[dict]] = {}
    for row in featurizer.rows(examples, DataReport(name, split)):
        rows.setdefault(row[f"{name}_eid"] // EIDS_PER_EXAMPLE, []).append(row)
    windows = dict(zip(ours, featurizer.windows(examples), strict=True))
    wanted = {record["raw"]["eid"] for record in records}
    for eid in sorted(wanted):
        theirs = [record for record in records if record["raw"]["eid"] == eid]
        comparison.true(f"example {eid}", eid in ours, "is missing")
        if eid not in ours:
            continue
        comparison.equal(f"windows of {eid}", len(rows.get(eid, [])), len(theirs))
        for record, row, window in zip(theirs, rows[eid], windows[eid], strict=False):
            _compare_example(ours[eid], record, comparison)
            _compare_row(row, record, comparison)
            if split != "train":
                tokens = tokenizer.tokens(row[INPUT_IDS])
                _compare_window(window, tokens, record, comparison)
    yield comparison.result()


def _compare_example(example: QAExample, record: dict, comparison: Comparison) -> None:
    raw, label = record["raw"], f"{example.qas_id}"
    # Their predictions are by "id" in SQuAD and by "qid" in MRQA; a file may have both.
    ids = ("qas_id", "qid") if record["task"] in SQUAD_TASKS else ("qid", "qas_id")
    theirs = next(raw[key] for key in ids if raw.get(key) is not None)
    comparison.true(label, example.qas_id == theirs, f"theirs is {theirs}")
    comparison.true(label, example.question_text == raw["question_text"], "other question")
    words = len(example.context.words)
    comparison.equal(f"{label} words", words, raw["n_doc_tokens"])
    if not record["is_training"]:
        return  # theirs know no answers then
    comparison.equal(f"{label} is_impossible", example.is_impossible, raw["is_impossible"])
    if not example.is_impossible:
        same = example.orig_answer_text == raw["orig_answer_text"]
        comparison.true(label, same, f"theirs is {raw['orig_answer_text']}")
        positions = (example.start_position, example.end_position)
        expected = (raw["start_position"], raw["end_position"])
        comparison.equal(f"{label} words of the answer", positions, expected)


def _compare_row(row: dict, record: dict, comparison: Comparison) -> None:
    name, theirs = record["task"], record["features"]
    label = f"{name} {theirs[f'{name}_eid']}"
    length = len(theirs[INPUT_IDS])
    columns = {key: _padded(row[key], length) for key in (INPUT_IDS, SEGMENT_IDS)}
    columns[INPUT_MASK] = _padded(np.ones_like(row[INPUT_IDS]), length)
    fields = ["eid"]
    if record["is_training"]:
        fields += ["start_positions", "end_positions", "is_impossible"]
    columns |= {f"{name}_{field}": row[f"{name}_{field}"] for field in fields}
    for key, value in columns.items():
        comparison.equal(f"{label} {key}", value, np.asarray(theirs[key], np.int64))


def _compare_window(
    window: Window, tokens: list[str], record: dict, comparison: Comparison
) -> None:
    prefix, theirs = record["task"] + "_", record["features"]
    eid = theirs[f"{prefix}eid"]
    number = theirs[f"{prefix}doc_span_index"]
    comparison.equal(f"{eid} doc_span_index", eid % EIDS_PER_EXAMPLE, number)
    comparison.true(f"{eid} tokens", tokens == theirs[f"{prefix}tokens"], "differ")
    positions = np.arange(len(window.words)) + window.first_token
    pairs = np.stack([positions, window.words], axis=1)
    comparison.equal(f"{eid} words", pairs, theirs[f"{prefix}token_to_orig_map"])
    best = positions[window.is_max_context]
    comparison.equal(f"{eid} max context", best, theirs[f"{prefix}token_is_max_context"])


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.pad(values, (0, length - len(values)))


def _load(path: str, name: str, split: str) -> list[QAExample]:
    builder = QuestionCollector(
        DataReport(name, split),
        v2=name == SQUAD_V2,
        is_training=split == "train",
        authors_answer_check=True,
    )
    read_questions(path, builder)
    return builder.examples


def _write_raw(reference_dir: pathlib.Path, folder: pathlib.Path, name: str) -> str:
    """Writes the file that a task's features were made from, and returns its path."""
    if name not in SQUAD_TASKS:
        lines = json.loads((reference_dir / f"features_raw_{name}.json").read_text())
        path = folder / "data.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)
    content = json.loads((reference_dir / "features_raw_squad.json").read_text())
    path = folder / "data.json"
    path.write_text(json.dumps(content if name == SQUAD_V2 else answerable(content)))
    return str(path)
