"""Fixtures of the data path's tests: vocabularies and small corpora."""

import pathlib
from collections.abc import Callable

import pytest

from electra_tf.util.tensorflow_import import import_tensorflow
from pretrain_data.build.dataset import CorpusBuildConfig, build_pretraining_data
from pretrain_data.records.manifest import Manifest

import_tensorflow()

WORDS = ("the", "boat", "and", "sea", "storm", "in", "harbour", ".", ",", "night", "town")


@pytest.fixture
def corpus_dir(tmp_path) -> pathlib.Path:
    """Twelve documents in three files, one of them in a folder below."""
    directory = tmp_path / "corpus"
    (directory / "below").mkdir(parents=True)
    for number, name in enumerate(["a.txt", "b.txt", "below/c.txt"]):
        (directory / name).write_text(corpus_text(number, num_documents=4))
    return directory


@pytest.fixture
def build(tmp_path, corpus_dir, demo_vocab_file) -> Callable[..., Manifest]:
    """Builds `corpus_dir` into `tmp_path / "records"` with 32 tokens per example."""

    def build_with(**settings) -> Manifest:
        print_fn = settings.pop("print_fn", lambda message: None)
        arguments = {
            "corpus_dir": corpus_dir,
            "vocab_file": demo_vocab_file,
            "output_dir": tmp_path / "records",
            "max_seq_length": 32,
        }
        return build_pretraining_data(CorpusBuildConfig(**arguments | settings), print_fn)

    return build_with


def corpus_text(number: int, num_documents: int, num_lines: int = 6) -> str:
    """Documents whose lines all differ, with a blank line after each."""
    documents = []
    for document in range(num_documents):
        lines = []
        for line in range(num_lines):
            words = [WORDS[(i * (line + 2) + number) % len(WORDS)] for i in range(7)]
            lines.append(f"{number} {document} {line} {' '.join(words)}")
        documents.append("\n".join(lines) + "\n")
    return "\n".join(documents)
