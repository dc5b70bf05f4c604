"""Cached features: reused as long as nothing that they follow from has changed."""

import json
import pathlib

import numpy as np
import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.task_data import TaskData
from finetune.tasks.registry import build_tasks


@pytest.fixture
def load(make_finetuning_config, finetuning_data, tmp_path):
    """Returns a function that loads a split of a copy of cola, and what was said."""
    raw = tmp_path / "raw"
    (raw / "cola").mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        source = finetuning_data / "finetuning_data" / "cola" / name
        (raw / "cola" / name).write_text(source.read_text())

    def load_split(**overrides):
        config = make_finetuning_config(raw_data_dir=str(raw), **overrides)
        vocabulary = load_vocabulary(config.vocab_file)
        (task,) = build_tasks(config, CachedTokenizer(vocabulary, config.do_lower_case))
        said = []
        data = TaskData(config, said.append).get(task, "train", is_training=True)
        return data, any("cached features" in line for line in said)

    load_split.raw = raw
    return load_split


def assert_same_rows(first, second) -> None:
    assert len(first) == len(second)
    for ours, theirs in zip(first, second, strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert np.array_equal(ours[name], theirs[name]), name


def test_features_are_reused(load):
    first, was_cached = load()
    assert not was_cached
    second, was_cached = load()
    assert was_cached
    assert_same_rows(first.rows, second.rows)


@pytest.mark.parametrize(
    "overrides",
    [{"max_seq_length": 10}, {"do_lower_case": False}, {"use_tfrecords_if_existing": False}],
)
def test_another_setting_makes_them_anew(load, overrides):
    load()
    _, was_cached = load(**overrides)
    assert not was_cached


def test_another_vocabulary_makes_them_anew(load, finetuning_data, tmp_path):
    load()
    tokens = (finetuning_data / "models" / "m" / "vocab.txt").read_text().splitlines()
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*tokens[:5], *reversed(tokens[5:])]) + "\n")
    data, was_cached = load(vocab_file=str(other))
    assert not was_cached
    assert data.rows[0]["input_ids"][1] >= 5


def test_other_data_makes_them_anew(load):
    load()
    path = load.raw / "cola" / "train.tsv"
    path.write_text(path.read_text() + "src\t1\t\tw1 w2\n")
    data, was_cached = load()
    assert not was_cached
    assert len(data.rows) == 65


def test_records_that_were_cut_off_are_made_anew(load, tmp_path):
    first, _ = load()
    records = tmp_path / "features" / "cola_train.tfrecord"
    records.write_bytes(records.read_bytes()[:-20])
    second, was_cached = load()
    assert not was_cached
    assert_same_rows(first.rows, second.rows)


def test_what_was_cut_is_told_again_from_the_cache(load, make_finetuning_config):
    load(max_seq_length=8)
    load(max_seq_length=8)
    config = make_finetuning_config()
    path = pathlib.Path(config.results_dir) / "cola_train_data_report.json"
    (cases,) = json.loads(path.read_text()).values()
    assert cases
