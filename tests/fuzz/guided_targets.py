"""What coverage-guided fuzzing gives bytes to; see `tests/faults/fuzzing.py`.

Each target reads bytes as a program reads a file of strangers. It returns, whether they are
valid or refused by a clear `UserError`; whatever else it raises is a finding.
"""

import gzip
import io
import json
import pathlib
import pickle
import shutil
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from electra_tf.interop.huggingface.format import HuggingFaceFormat
from electra_tf.interop.huggingface.pytorch_archive import read_pytorch_archive
from electra_tf.interop.tf1_format import read_tf1_arrays
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.config.task_spec import TaskSpec
from finetune.config.task_spec_parser import load_specs
from finetune.data.features import DataReport
from finetune.data.file_readers import read_records
from finetune.tasks.qa.examples import QuestionCollector
from finetune.tasks.qa.readers import read_questions
from pretrain_data.corpus.formats import FormatOptions, make_part
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, TF1_DATA
from tests.electra_tf.text.plain_tokenizer import plain_tokenize
from tests.electra_tf.text.test_tokenizer import MODES, letters_vocabulary
from tests.fuzz.inputs import outcome

Read = Callable[[bytes], None]
TABLE_FORMATS = ("tsv", "csv", "conll", "jsonl")
_TF1_CHECKPOINT = TF1_DATA / "pretraining" / "ckpt_tied_all"
_TF1_DATA_SUFFIX = ".data-00000-of-00001"


class Target(NamedTuple):
    """A reader of bytes.

    Attributes:
        make: returns the reader, which may write into a folder of its own.
        seeds: inputs to begin with.
        max_bytes: of an input.
    """

    make: Callable[[pathlib.Path], Read]
    seeds: Callable[[], list[bytes]]
    max_bytes: int = 4096


def _tokenizer(folder: pathlib.Path) -> Read:
    del folder
    vocabulary = letters_vocabulary(set("abcdefghiéñ中文가각ß.\u0301\u0300"))
    tokenizers = [(mode, CachedTokenizer(vocabulary, *mode)) for mode in MODES]

    def read(content: bytes) -> None:
        # Text files are divided into lines, and broken UTF-8 is replaced, before this. Sigma
        # is lowercased by its neighbors, in which the two differ (see the tokenizer).
        text = content.decode("utf-8", "replace").replace("\n", " ").replace("Σ", " ")
        if any(unicodedata.category(c) in ("Cn", "Co") for c in text):
            return  # of other versions of Unicode
        for mode, tokenizer in tokenizers:
            (ids,) = tokenizer.tokenize([text])
            assert ids.tolist() == plain_tokenize(text, vocabulary, *mode), (mode, ascii(text))

    return read


def _text_seeds() -> list[bytes]:
    texts = ("the cafe\u0301, e.g. 中文 a.b", "İ ß Å 가 ㄱ", "\u3000a\xa0b\u200d\0\ufffd")
    return [text.encode() for text in texts]


def _tables(folder: pathlib.Path) -> Read:
    def read(content: bytes) -> None:
        kind, content = content[:1], content[1:]
        choice = kind[0] if kind else 0
        file_format = TABLE_FORMATS[choice % 4]
        is_compressed = choice & 16
        path = folder / f"table.{file_format}{'.gz' if is_compressed else ''}"
        path.write_bytes(content)
        columns = {"a": "x"} if file_format == "jsonl" else {"a": 0, "b": -1}
        records = outcome(
            read_records,
            str(path),
            file_format=file_format,
            columns=columns,
            header=bool(choice & 8),
        )
        if isinstance(records, UserError):
            assert str(path) in str(records), records
            return
        for record in records:
            assert set(record.values) == set(columns)
            for get in (record.text, record.number, record.label, record.words):
                outcome(get, "a")

    return read


def _table_seeds() -> list[bytes]:
    tsv, csv = b"a\tb\n1\tx y\n", b'a,b\n"1, ""2""",x\n'
    conll, jsonl = b"EU B-ORG\nsays O\n\nNo O\n", b'{"x": "a"}\n{"x": 1.5}\n'
    plain = [bytes([i]) + each for i, each in enumerate((tsv, csv, conll, jsonl))]
    return [*plain, bytes([8]) + tsv, bytes([16]) + gzip.compress(tsv, mtime=0)]


def _questions(folder: pathlib.Path) -> Read:
    def read(content: bytes) -> None:
        is_mrqa = content[:1] == b"m"
        path = folder / ("q.jsonl" if is_mrqa else "q.json")
        path.write_bytes(content[1:])
        for is_training in (True, False):
            builder = QuestionCollector(
                DataReport("t", "train"), v2=True, is_training=is_training
            )
            result = outcome(read_questions, str(path), builder)
            assert result is None or str(path) in str(result), result
            for example in builder.examples:
                example.question_text.encode()

    return read


def _question_seeds() -> list[bytes]:
    qa = {
        "id": "1",
        "question": "who",
        "answers": [{"text": "me", "answer_start": 8}],
        "is_impossible": False,
    }
    squad = {"data": [{"paragraphs": [{"context": "who was me", "qas": [qa]}]}]}
    found = {"text": "me", "char_spans": [[8, 9]]}
    mrqa = {
        "context": "who was me",
        "qas": [{"qid": "1", "question": "who", "detected_answers": [found]}],
    }
    lines = [json.dumps({"header": {}}), json.dumps(mrqa)]
    return [b"s" + json.dumps(squad).encode(), b"m" + "\n".join(lines).encode()]


def _descriptions(folder: pathlib.Path) -> Read:
    path = folder / "task.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        specs = outcome(load_specs, str(path))
        for spec in () if isinstance(specs, UserError) else specs:
            assert isinstance(spec, TaskSpec)
            assert not {"/", "\\", "\0"} & set(spec.name)
            for split in spec.files:
                outcome(spec.path, split, "no/such")
                outcome(spec.format_of, spec.files[split])

    return read


def _description_seeds() -> list[bytes]:
    files = {"train": "a.tsv", "dev": "b.csv"}
    tasks = [
        {"name": "a", "kind": "classification", "files": files, "labels": ["x", "y"]},
        {"name": "b", "kind": "regression", "files": files, "min_label": 0, "max_label": 1.5},
        {"name": "c", "kind": "tagging", "files": {"train": "c.conll"}, "dev_fraction": 0.1},
        {"name": "d", "kind": "qa", "files": {"train": "d.json"}, "unanswerable": True},
    ]
    return [json.dumps(each).encode() for each in (*tasks, tasks)]


def _corpus(folder: pathlib.Path) -> Read:
    options = FormatOptions()

    def read(content: bytes) -> None:
        suffixes = (".jsonl", ".txt", ".jsonl.gz", ".txt.gz", ".jsonl.zst", ".txt.zst")
        suffix = suffixes[content[0] % len(suffixes)] if content else ".txt"
        path = folder / f"corpus{suffix}"
        path.write_bytes(content[1:])

        def blocks() -> int:
            return sum(1 for _ in make_part(path, len(content), options).read())

        result = outcome(blocks)
        assert isinstance(result, int) or str(path) in str(result), result

    return read


def _corpus_seeds() -> list[bytes]:
    text, lines = b"One line.\nAnother.\n\nA document.\n", b'{"text": "a\\nb"}\n{"text": ""}\n'
    packed = gzip.compress(lines, mtime=0)
    return [b"\0" + lines, b"\1" + text, b"\2" + packed, b"\3" + gzip.compress(text, mtime=0)]


def _tf1(folder: pathlib.Path) -> Read:
    prefix = folder / "ckpt"
    shutil.copy(f"{_TF1_CHECKPOINT}{_TF1_DATA_SUFFIX}", f"{prefix}{_TF1_DATA_SUFFIX}")

    def read(content: bytes) -> None:
        pathlib.Path(f"{prefix}.index").write_bytes(content)
        _check_arrays(outcome(read_tf1_arrays, str(prefix)))

    return read


def _tf1_seeds() -> list[bytes]:
    return [pathlib.Path(f"{_TF1_CHECKPOINT}.index").read_bytes()]


def _safetensors(folder: pathlib.Path) -> Read:
    target = folder / "model"
    shutil.copytree(HUGGINGFACE_DATA / "gelu_new", target)
    _, tensors = _whole_safetensors()

    def read(content: bytes) -> None:
        # Header of its own length, before the tensors of a real model.
        size = len(content).to_bytes(8, "little")
        (target / "model.safetensors").write_bytes(size + content + tensors)
        result = outcome(HuggingFaceFormat().read, str(target))
        _check_arrays(result if isinstance(result, UserError) else result.arrays)

    return read


def _whole_safetensors() -> tuple[bytes, bytes]:
    """Returns the header and the tensors of a real file."""
    content = (HUGGINGFACE_DATA / "gelu_new/model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return content[8:end], content[end:]


def _safetensors_seeds() -> list[bytes]:
    return [_whole_safetensors()[0]]


def _pickles(folder: pathlib.Path) -> Read:
    path = folder / "pytorch_model.bin"
    with zipfile.ZipFile(HUGGINGFACE_DATA / "pytorch_bin/pytorch_model.bin") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def read(content: bytes) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in members.items():
                archive.writestr(name, content if name.endswith("data.pkl") else value)
        _check_arrays(outcome(read_pytorch_archive, str(path)))
        assert sorted(each.name for each in folder.iterdir()) == [path.name]

    return read


def _pickle_seeds() -> list[bytes]:
    with zipfile.ZipFile(HUGGINGFACE_DATA / "pytorch_bin/pytorch_model.bin") as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("data.pkl")]
        real = archive.read(name)
    made = ({"x": [1, (2.5, "a")]}, {}, [])
    return [real, *(pickle.dumps(each, 2) for each in made), pickle.dumps(io.BytesIO, 4)]


def _check_arrays(result: UserError | Mapping[str, object]) -> None:
    if not isinstance(result, UserError):
        for value in result.values():
            assert isinstance(value, np.ndarray | np.generic), type(value)


TARGETS: Mapping[str, Target] = {
    "tokenizer": Target(_tokenizer, _text_seeds, 256),
    "task tables": Target(_tables, _table_seeds),
    "questions": Target(_questions, _question_seeds),
    "task descriptions": Target(_descriptions, _description_seeds),
    "corpus": Target(_corpus, _corpus_seeds),
    "TF1 checkpoints": Target(_tf1, _tf1_seeds, 1 << 16),
    "safetensors": Target(_safetensors, _safetensors_seeds, 1 << 16),
    "pickles": Target(_pickles, _pickle_seeds, 1 << 16),
}
