"""Damaged task files of every kind: each outcome is examples or one error that names the place.

The files are mutated: cut, with bytes and cells replaced, values of other types, and keys and
columns missing.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import KINDS, built_in_kinds
from finetune.config.task_spec_parser import load_specs
from finetune.data.features import DataReport
from finetune.tasks.registry import make_built_in_task, make_custom_task
from tests.mutations import changed_values

QUESTION = {
    "id": "a",
    "question": "who?",
    "is_impossible": False,
    "answers": [{"text": "me", "answer_start": 8}],
}
SQUAD = json.dumps(
    {"data": [{"paragraphs": [{"context": "who was me", "qas": [QUESTION, QUESTION]}]}]}
)
DETECTED = [{"text": "me", "char_spans": [[8, 9]]}]
MRQA_QUESTION = {
    "qid": "a",
    "question": "who?",
    "answers": ["me"],
    "detected_answers": DETECTED,
}


def json_lines(*values: Any) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


MRQA = json_lines({"header": {}}, {"context": "who was me", "qas": [MRQA_QUESTION]})
QA_COLUMNS = {"columns": {"question": "q", "context": "c", "answers": "a"}}
CUSTOM = [
    ("classification", "train.tsv", "text\tlabel\na\tx\nb\ty\ngood\tx\nbad\ty\n", {}),
    ("classification", "train.csv", 'text,label\n"a, b",x\nb,y\ngood,x\n', {}),
    (
        "classification",
        "train.jsonl",
        json_lines(*({"text": text, "label": label} for text, label in ("ax", "b2", "gx"))),
        {"columns": {"text": "text", "label": "label", "id": "id"}},
    ),
    (
        "multilabel",
        "train.jsonl",
        json_lines({"text": "a", "label": ["x", "y"]}, {"text": "b", "label": "y"}),
        {},
    ),
    ("multilabel", "train.tsv", "text\tlabel\na\tx,y\nb\tx\n", {"group_column": "text"}),
    (
        "regression",
        "train.jsonl",
        json_lines(*({"text": t, "label": n} for t, n in (("a", 1.5), ("b", "2"), ("c", 3)))),
        {"group_column": "text"},
    ),
    ("regression", "train.csv", "text,label\na,1\nb,2.5\n", {}),
    ("tagging", "train.conll", "who O\nwas O\nhere B-LOC\n\na B-PER\nb I-PER\n", {}),
    (
        "tagging",
        "train.jsonl",
        json_lines({"words": ["a", "b"], "tags": ["O", "B-X"]}, {"words": "c", "tags": "B-Y"}),
        {},
    ),
    ("tagging", "train.tsv", "words\ttags\na b\tX Y\nc\tX\n", {"level": "token"}),
    (
        "multiple_choice",
        "train.jsonl",
        json_lines(
            {"text": "a", "choices": ["b", "good"], "label": 1},
            {"text": "b", "choices": {"text": ["a", "me", "b"], "label": ["x", "y", "z"]}}
            | {"label": "y"},
        ),
        {},
    ),
    (
        "multiple_choice",
        "train.csv",
        "q,x,c1,c2,c3,y\na,me,b,good,,A\nb,me,a,b,good,C\n",
        {
            "columns": {
                "text": "q",
                "question": "x",
                "choices": ["c1", "c2", "c3"],
                "label": "y",
            }
        },
    ),
    ("qa", "train.json", SQUAD, {}),
    ("qa", "train.jsonl", MRQA, {}),
    (
        "qa",
        "train.jsonl",
        json_lines(
            {"q": "who?", "c": "me was", "a": ["me"]},
            {"q": "who?", "c": "was me", "a": {"text": ["me"], "answer_start": [4]}},
            {"q": "who?", "c": "was me", "a": [{"text": "me", "answer_start": 4}]},
        ),
        QA_COLUMNS,
    ),
]
BUILT_IN = [
    ("cola", "tsv", "src\t1\t\tgood a\nsrc\t0\t*\tbad b\n"),
    ("mrpc", "tsv", "q\ti\ti\ta\tb\n1\t1\t2\tgood\tbad\n0\t1\t2\ta\tb\n"),
    ("qqp", "tsv", "i\tq\tq\ta\tb\tl\n1\t1\t2\tgood\tbad\t1\n2\t1\t2\ta\tb\t0\n"),
    ("sts", "tsv", "index\ta\tb\tl\n0\tgood\tbad\t2.5\n1\tgood\tbad\t5.0\n"),
    ("chunk", "txt", "who X O\nwas X B-NP\n\nme X I-NP\n"),
    ("squad", "json", SQUAD),
    ("newsqa", "jsonl", MRQA),
]


def changed_bytes(content: bytes, generator: np.random.Generator) -> Iterator[bytes]:
    for cut in {0, 1, len(content) // 2, *generator.integers(0, len(content), 8).tolist()}:
        yield content[:cut]
    for bad in (b"\xff", b"\0", b"\xf0\x9f", b'"', b"\t", b",", b"\n", b"\r", b"{", b"\\ud800"):
        for at in generator.integers(0, len(content), 4):
            yield content[:at] + bad + content[at:]
            yield content[:at] + bad + content[at + 1 :]
    lines = content.split(b"\n")
    for i, line in enumerate(lines):
        yield b"\n".join(lines[:i] + lines[i + 1 :])
        for separator in (b"\t", b",", b" "):
            cells = line.split(separator)
            for j in range(len(cells)):
                for cell in (b"", b" ", b"nan", b"1e400", b"-", b"\xc2\xa0"):
                    new = separator.join([*cells[:j], cell, *cells[j + 1 :]])
                    yield b"\n".join([*lines[:i], new, *lines[i + 1 :]])
    yield content.decode().encode("utf-16")
    yield b"\xef\xbb\xbf" + content
    yield b"[" * 100_000
    yield b'{"text": ' + b"1" * 5000 + b"}"
    yield generator.bytes(300)


def mutations(name: str, content: str, generator: np.random.Generator) -> Iterator[bytes]:
    yield from changed_bytes(content.encode(), generator)
    if name.endswith(".json"):
        yield from (text.encode() for text in changed_values(content))
    if name.endswith(".jsonl"):
        lines = content.splitlines()
        for i, line in enumerate(lines):
            for text in changed_values(line):
                yield "\n".join([*lines[:i], text, *lines[i + 1 :]]).encode()


# An error names a line or record, or is one of a whole file.
PLACE = re.compile(
    r"line \d+|data\[|is empty|contains no|no usable|too few|same group|nothing to learn|"
    r"header|has no column|UTF-16|UTF-32|are NUL|not valid JSON|must be an object|"
    r"lacks \"data\"|\"data\" must|end in carriage returns"
)


def error_of(task_of) -> str | None:
    """Returns the UserError of a task whose files are read, if there is one."""
    try:
        task = task_of()
        for split in ("train", *task.dev_splits):
            report = DataReport(task.name, split)
            examples = task.load(split, report)
            task.featurize(examples, is_training=split == "train", report=report)
    except UserError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> CachedTokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "good", "me", "##s"]
    path.write_text("\n".join(tokens) + "\n")
    return CachedTokenizer(load_vocabulary(path))


def test_every_kind_and_format_is_among_the_files():
    assert {kind for kind, *_ in CUSTOM} == {kind.name for kind in KINDS}
    assert {built_in_kinds()[task].name for task, *_ in BUILT_IN} == {
        kind.name for kind in KINDS if kind.built_in
    }


@pytest.mark.parametrize(
    ("kind", "name", "content", "changes"), CUSTOM, ids=[f"{c[0]} {c[1]}" for c in CUSTOM]
)
def test_damaged_files_of_custom_tasks(tmp_path, tokenizer, kind, name, content, changes):
    fraction = 0.0 if kind == "qa" else 0.3
    spec = {"name": "mine", "kind": kind, "files": {"train": name}, "dev_fraction": fraction}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**spec, **changes}))
    (spec,) = load_specs(str(path))
    config = FinetuningConfig.create(
        data_dir=str(tmp_path),
        model_name="tiny",
        task_names=("mine",),
        max_seq_length=16,
        do_eval=False,
    )
    check(lambda: make_custom_task(config, spec, tokenizer), [tmp_path / name], content)


@pytest.mark.parametrize(("task", "suffix", "content"), BUILT_IN, ids=[c[0] for c in BUILT_IN])
def test_damaged_files_of_built_in_tasks(tmp_path, tokenizer, task, suffix, content):
    folder = tmp_path / "finetuning_data" / task
    folder.mkdir(parents=True)
    config = FinetuningConfig.create(
        data_dir=str(tmp_path), model_name="tiny", task_names=(task,), max_seq_length=16
    )
    paths = [folder / f"{split}.{suffix}" for split in ("train", "dev")]
    check(lambda: make_built_in_task(config, task, tokenizer), paths, content)


def check(task_of, paths, content: str) -> None:
    generator = np.random.default_rng(0)
    errors = []
    for data in (content.encode(), *mutations(paths[0].name, content, generator)):
        for path in paths:
            path.write_bytes(data)
        errors.append(error_of(task_of))
    assert errors[0] is None
    refused = [error for error in errors if error is not None]
    assert 0.05 < len(refused) / len(errors) < 0.95
    for error in refused:
        assert any(str(path) in error for path in paths)
        assert PLACE.search(error), error


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"name": 1e400}', "[[]]", '{"name": "x", "name": "y"}', "{"]
)
def test_damaged_descriptions_are_refused(text):
    with pytest.raises(UserError, match="--task_spec"):
        load_specs(text)


def test_any_value_of_a_description_is_read_or_refused():
    text = json.dumps(
        {
            "name": "mine",
            "kind": "regression",
            "files": {"train": "a.csv"},
            "columns": {"text": "a", "label": 1},
            "group_column": "b",
            "min_label": 0,
            "max_label": 5,
            "metric": "spearman",
        }
    )
    assert load_specs(text)
    refused = []
    for changed in changed_values(text):
        try:
            load_specs(changed)
        except UserError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all("--task_spec" in error for error in refused)
