"""Tests of the units of a corpus, and that processes only share them."""

import gzip
import json
import pathlib
import pickle
from collections import Counter

import pytest

from electra_tf.text import tokenizer
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.units import divide_units, find_units
from pretrain_data.corpus.inputs import find_inputs
from pretrain_data.corpus.readers import text_files
from pretrain_data.parallel import processes
from tests.pretrain_data.build.test_dataset import read_shards
from tests.pretrain_data.conftest import corpus_text


@pytest.fixture
def large_corpus_dir(tmp_path) -> pathlib.Path:
    """Text that crosses shares, a compressed file, and documents that repeat."""
    directory = tmp_path / "large"
    directory.mkdir()
    (directory / "a.txt").write_text(corpus_text(1, num_documents=90))
    (directory / "b.txt.gz").write_bytes(gzip.compress(corpus_text(2, 40).encode()))
    (directory / "c.txt").write_text(corpus_text(3, 40) + "\n" + corpus_text(1, 5))
    lines = [json.dumps({"text": corpus_text(i, 1)}) for i in range(30)]
    (directory / "d.jsonl").write_text("\n".join(lines))
    return directory


@pytest.fixture
def examples_of(build, tmp_path, monkeypatch, large_corpus_dir, vocabulary):
    """Returns the examples of a build, and the held-out ones; all processes are this one."""

    def run_here(work, jobs, progress):
        sent = pickle.loads(pickle.dumps(jobs))
        return [pickle.loads(pickle.dumps(work(job, lambda counts: None))) for job in sent]

    monkeypatch.setattr(processes, "_run_in_processes", run_here)
    # Every process makes one, which takes a second.
    one = tokenizer.Tokenizer(vocabulary)
    monkeypatch.setattr(tokenizer, "Tokenizer", lambda *settings: one)

    def examples(**settings) -> tuple[Counter, Counter]:
        text = {"corpus_dir": None, "inputs": (str(large_corpus_dir),)}
        manifest = build(**text, overwrite=True, num_out_files=6, seed=3, **settings)
        assert manifest.num_units > 3
        found = Counter(read_shards(tmp_path / "records"))
        held_out = tmp_path / "records/held_out"
        return found, Counter(read_shards(held_out) if held_out.is_dir() else [])

    return examples


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pack": True, "eval_fraction": 0.3, "deduplicate": "exact"},
        {"authors_trimming": True, "shuffle_files": False},
        {"blanks_separate_docs": False, "max_seq_length": 64},
    ],
)
def test_the_examples_do_not_depend_on_the_number_of_processes(examples_of, settings):
    train, held_out = examples_of(num_processes=1, **settings)
    assert len(train) > 50
    assert bool(held_out) == ("eval_fraction" in settings)
    for num_processes in (2, 3):
        assert examples_of(num_processes=num_processes, **settings) == (train, held_out)


def test_every_unit_has_draws_of_its_own(tmp_path, vocabulary):
    path = tmp_path / "a.txt"
    path.write_text(corpus_text(1, num_documents=90))
    config = CorpusBuildConfig(None, path, path)
    units = find_units(find_inputs([str(path)]).parts, config)
    assert [unit.index for unit in units] == list(range(5))
    assert "".join(line + "\n" for line in _lines(units)) == path.read_text()
    draws = [unit.rng(7).random() for unit in units]
    draws += [unit.rng(7, held_out=True).random() for unit in units]
    draws += [unit.rng(8).random() for unit in units]
    assert len(set(draws)) == len(draws)
    shares = divide_units(units, 4)
    assert [unit for share in shares for unit in share] == units
    assert [len(share) for share in shares] == [1, 1, 2, 1]
    assert len(divide_units(units, 50)) == 5


@pytest.mark.parametrize("blanks", [True, False])
def test_a_document_is_cut_only_if_it_is_very_long(tmp_path, monkeypatch, blanks):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i}\n" for i in range(5000)))
    config = CorpusBuildConfig(None, path, path, blanks_separate_docs=blanks)
    parts = find_inputs([str(path)]).parts
    assert len(find_units(parts, config)) == 1
    monkeypatch.setattr(text_files, "_MAX_DOCUMENT_BYTES", 10_000)
    units = find_units(parts, config)
    assert len(units) > 3
    assert _lines(units) == path.read_text().splitlines()
    selecting = CorpusBuildConfig(
        None, path, path, blanks_separate_docs=blanks, deduplicate="exact"
    )
    assert len(find_units(parts, selecting)) == 1


def _lines(units) -> list[str]:
    return [
        line
        for unit in units
        for part in unit.parts
        for block in part.read()
        for line in block.lines
    ]
