"""Runs the data half of the reference check on the small set of tests/data."""

import json
import pathlib
import shutil

import pytest

from tests.reference.data_checks import check_data

ROOT = pathlib.Path(__file__).parents[2]
REFERENCE_DIR = ROOT / "tests/data/reference/pretraining"
VOCAB_FILE = ROOT / "recipes/vocab/bert_uncased_vocab.txt"


def test_everything_agrees():
    results = list(check_data(REFERENCE_DIR, VOCAB_FILE))
    assert [result for result in results if not result.passed] == []
    names = {result.name for result in results}
    assert {"tokenization ids_cased", "records of 3 shards", "sha256 of vocabulary"} < names
    assert sum(name.startswith("examples ") for name in names) == 6
    assert sum(name.startswith("random draws ") for name in names) == 6


@pytest.fixture
def copied_set(tmp_path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(REFERENCE_DIR, tmp_path / "set"))


def failed_checks(reference_dir: pathlib.Path) -> set[str]:
    return {r.name for r in check_data(reference_dir, VOCAB_FILE) if not r.passed}


@pytest.mark.parametrize(
    ("file", "old", "new", "failed"),
    [
        (
            "tokenization.jsonl",
            b'"ids_cased": [',
            b'"ids_cased": [7, ',
            {"tokenization ids_cased", "corpus ids_cased"},
        ),
        (
            "corpus.txt",
            b"destitute",
            b"very destitute",
            {
                "sha256 of corpus corpus.txt",
                "examples pretraining_examples_128.jsonl",
                "examples pretraining_examples_64.jsonl",
            },
        ),
        (
            "pretraining_examples_cased.jsonl",
            b'"segment_ids": [0',
            b'"segment_ids": [1',
            {"examples pretraining_examples_cased.jsonl"},
        ),
    ],
)
def test_a_difference_is_found(copied_set, file, old, new, failed):
    path = copied_set / file
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    wrong = {name for name in failed_checks(copied_set) if not name.startswith("random draws")}
    assert wrong == failed


def test_other_draws_and_shards_are_found(copied_set):
    path = copied_set / "pretraining_examples_meta.json"
    meta = json.loads(path.read_text())
    meta["cases"][0]["next_random_after"] += 1e-9
    path.write_text(json.dumps(meta))
    shards = [copied_set / f"pretrain_data-{i}-of-3.tfrecord" for i in (0, 1)]
    shutil.copy(*shards)
    failed = {"random draws pretraining_examples_128.jsonl", "records of 3 shards"}
    assert failed_checks(copied_set) == failed


def test_other_settings_of_the_tokenizer_are_named(copied_set):
    path = copied_set / "tokenization.jsonl"
    text = path.read_text().replace('"ids_cased"', '"ids_of_another_kind"')
    path.write_text(text)
    skipped = {r.name: r.detail for r in check_data(copied_set, VOCAB_FILE) if r.skipped}
    assert skipped == {
        "tokenization not compared": "ids_of_another_kind",
        "tokenization ids_cased": "not recorded",
    }
    assert failed_checks(copied_set) == set()
