"""Cached features: reused as long as nothing that they follow from has changed."""

import dataclasses
import errno
import json
import os
import pathlib
import threading
import time

import filelock
import numpy as np
import pytest

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.recorded_settings import influences
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.data import feature_cache
from finetune.data.feature_cache import ENTRIES_KEPT, CacheEntry, FeatureCache
from finetune.data.features import FeatureSpec
from finetune.results.provenance import scored_settings_digest
from finetune.task_data import _NEWER_SETTINGS, _SETTINGS, TaskData, fingerprint
from finetune.tasks.registry import build_tasks
from finetune.tasks.text.tsv import TsvSource


@pytest.fixture
def load(make_finetuning_config, finetuning_data, tmp_path):
    """Returns a function that loads a split of a copy of cola, and what was said."""
    raw = tmp_path / "raw"
    (raw / "cola").mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        source = finetuning_data / "finetuning_data" / "cola" / name
        (raw / "cola" / name).write_text(source.read_text())

    # No description of the tokenizer is beside this vocabulary, and no model needs it.
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text((finetuning_data / "models" / "m" / "vocab.txt").read_text())
    settings = {
        "raw_data_dir": str(raw),
        "vocab_file": str(vocab_file),
        "model_name": "none",
        "init_checkpoint": "random",
    }

    def load_split(**overrides):
        config = make_finetuning_config(**{**settings, **overrides})
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


def test_debug_takes_a_batch_and_caches_nothing(load):
    data, _ = load(debug=True, train_batch_size=2)
    assert len(data.examples) == len(data.rows) == 2
    _, was_cached = load(debug=True, train_batch_size=2)
    assert not was_cached
    folder = {"preprocessed_data_dir": str(load.raw.parent / "features")}
    assert len(load(**folder)[0].examples) > 2
    reused = load(debug=True, train_batch_size=2, use_tfrecords_if_existing=True, **folder)
    assert len(reused[0].rows) == 2


def test_a_model_of_debug_is_of_other_data(make_finetuning_config):
    """It has the settings of a whole run, but has seen a batch of its examples."""
    config = make_finetuning_config(init_checkpoint="random")
    (task,) = build_tasks(config, CachedTokenizer(load_vocabulary(config.vocab_file), True))
    whole = fingerprint(task, "train", is_training=True)
    digest = scored_settings_digest(dataclasses.asdict(config), None)
    task.config = dataclasses.replace(config, debug=True)
    assert fingerprint(task, "train", is_training=True) != whole
    debug = dataclasses.asdict(task.config)
    assert scored_settings_digest(debug, None) != digest
    assert scored_settings_digest(dataclasses.asdict(config), debug) != digest


def test_a_split_without_usable_examples_is_named(load, monkeypatch):
    monkeypatch.setattr(TsvSource, "load", lambda *_, **__: [])
    with pytest.raises(UserError, match=r"^cola: the split 'train' has no usable example \("):
        load()

    def drop_one(_, split, report):
        report.add("text too short")
        return []

    monkeypatch.setattr(TsvSource, "load", drop_one)
    with pytest.raises(UserError, match=r"train\.tsv\): 1 x text too short$"):
        load()


def test_features_are_reused(load):
    first, was_cached = load()
    assert not was_cached
    second, was_cached = load()
    assert was_cached
    assert_same_rows(first.rows, second.rows)


@pytest.mark.parametrize(
    "overrides",
    [{"max_seq_length": 10}, {"double_unordered": False}, {"use_tfrecords_if_existing": False}],
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
    data, was_cached = load(vocab_file=str(other), init_checkpoint="random")
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
    (records,) = (tmp_path / "features").glob("cola_train-*.tfrecord")
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
    load(max_seq_length=16)  # cuts nothing
    assert not path.exists()


def test_reports_from_the_cache_count_by_the_limit_of_the_run(make_finetuning_config, tmp_path):
    folder = tmp_path / "raw" / "squadv1"
    folder.mkdir(parents=True)
    question = {"id": "1", "question": "w0"}
    question["answers"] = [{"text": "w1 w2 w3", "answer_start": 0}]
    paragraphs = [{"context": "w1 w2 w3 w4", "qas": [question]}]
    (folder / "train.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    settings = {"task_names": ("squadv1",), "raw_data_dir": str(tmp_path / "raw")}

    def load(**limit) -> tuple[str, bool]:
        config = make_finetuning_config(**settings, **limit)
        (task,) = build_tasks(config, CachedTokenizer(load_vocabulary(config.vocab_file)))
        said = []
        data = TaskData(config, said.append)
        data.get(task, "train", is_training=True)
        lines = "\n".join(said)
        assert ("longer than max_answer_length" in lines) == bool(limit)
        # The weights do not depend on it.
        return data.content_fingerprints["squadv1/train"], "cached features" in lines

    first, _ = load()
    assert load(max_answer_length=2) == (first, False)
    assert load(max_answer_length=2) == (first, True)
    assert load() == (first, True)


def test_features_depend_on_class_weights_and_those_of_before_stay_valid(load, monkeypatch):
    plain, _ = load()
    with monkeypatch.context() as patch:
        patch.setattr("finetune.task_data._NEWER_SETTINGS", ())
        assert load()[1]
    balanced, was_cached = load(class_weights="balanced")
    assert not was_cached
    weights = [row["cola_weights"] for row in balanced.rows]
    assert np.mean(weights) == pytest.approx(1)
    again, was_cached = load(class_weights="balanced")
    assert was_cached
    assert_same_rows(balanced.rows, again.rows)
    assert "cola_weights" not in plain.rows[0]


# What determines the weights, but not the features that are cached.
NOT_IN_FEATURES = {
    *(field.name for field in dataclasses.fields(EncoderConfig)),
    "answerable_classifier",
    "answerable_uses_start_logits",
    "answerable_weight",
    "bucket_by_length",
    "clip_norm",
    "early_stopping_patience",
    "eval_steps",
    "focal_gamma",
    "freeze_embeddings",
    "freeze_layers",
    "interpolate_positions",
    "joint_prediction",
    "keep_best",
    "label_smoothing",
    "layerwise_lr_decay",
    "learning_rate",
    "length_buckets",
    "lr_decay_power",
    "num_train_epochs",
    "optimizer",
    "precision",
    "seed",
    "selection_fraction",
    "shard_by",
    "task_names",
    "train_batch_size",
    "warmup_proportion",
    "weight_decay_rate",
}


def test_features_depend_on_every_setting_of_training_or_are_known_not_to():
    """A new hyperparameter is in `_NEWER_SETTINGS` of `finetune/task_data.py`, or here."""
    kinds = influences(FinetuningConfig)
    training = {
        name
        for name, kind in kinds.items()
        if kind == TRAINING and not name.startswith(("authors_", "own_task"))
    }
    # The vocabulary counts by its content.
    assert training - {*_SETTINGS, *_NEWER_SETTINGS} == NOT_IN_FEATURES


class KilledError(Exception):
    """Stands for a kill."""


def test_a_kill_between_records_and_manifest_leaves_no_wrong_features(load, monkeypatch):
    first, _ = load(max_seq_length=16)

    def stop(*arguments):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("finetune.data.feature_cache.write_atomically", stop)
        with pytest.raises(KilledError):
            load(max_seq_length=8)
    again, _ = load(max_seq_length=16)
    assert_same_rows(first.rows, again.rows)
    short, was_cached = load(max_seq_length=8)
    assert not was_cached
    assert max(len(row["input_ids"]) for row in short.rows) == 8


def test_records_of_another_entry_are_not_read(load, tmp_path):
    load(max_seq_length=16)
    (long,) = (tmp_path / "features").glob("*.tfrecord")
    content = long.read_bytes()
    load(max_seq_length=8)
    (short,) = set((tmp_path / "features").glob("*.tfrecord")) - {long}
    short.write_bytes(content)
    data, was_cached = load(max_seq_length=8)
    assert not was_cached
    assert max(len(row["input_ids"]) for row in data.rows) == 8


def test_runs_of_other_settings_keep_their_features(load, tmp_path):
    for length in (8, 10, 8, 10):
        _, was_cached = load(max_seq_length=length)
    assert was_cached
    for length in range(11, 11 + ENTRIES_KEPT):
        load(max_seq_length=length)
    features = tmp_path / "features"
    for suffix in ("json", "tfrecord"):
        assert len(list(features.glob(f"*.{suffix}"))) == ENTRIES_KEPT


def test_the_second_of_two_programs_waits_and_reads(load, tmp_path, monkeypatch):
    """While one holds the lock, the other neither reads nor writes."""
    features = tmp_path / "features"
    features.mkdir()
    held = filelock.FileLock(features / "cola_train.lock", thread_local=False)
    held.acquire()
    found = []
    thread = threading.Thread(target=lambda: found.append(load()))
    thread.start()
    time.sleep(1)
    assert not list(features.glob("*.tfrecord"))
    held.release()
    thread.join(timeout=60)
    ((first, was_cached),) = found
    assert not was_cached
    second, was_cached = load()
    assert was_cached
    assert_same_rows(first.rows, second.rows)


def test_data_that_changes_while_it_is_read_is_not_cached(load, tmp_path, monkeypatch):
    path = load.raw / "cola" / "train.tsv"
    original = TsvSource.load

    def read_and_change(self, split, report):
        examples = original(self, split, report)
        path.write_text(path.read_text().replace("w1", "w2"))
        return examples

    with monkeypatch.context() as patch:
        patch.setattr(TsvSource, "load", read_and_change)
        with pytest.raises(UserError, match=r"changed while they were read .*train\.tsv"):
            load()
    assert not list(tmp_path.glob("features/*.tfrecord"))


def test_features_that_cannot_be_cached_are_used(load, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(feature_cache, "write_atomically", fail)
    data, was_cached = load()
    assert not was_cached
    assert len(data.rows) == 64


def test_the_features_of_a_record_are_in_order(tmp_path):
    """They are a map, in an order of the process unless they are sorted."""
    names = [f"feature_{letter}" for letter in "hcbafgdeijlk"]
    specs = [FeatureSpec(name, per_token=True) for name in names]
    row = {name: np.arange(3) for name in names}
    FeatureCache(str(tmp_path)).save("x", "0" * 64, specs, CacheEntry([row], {}))
    (records,) = tmp_path.glob("*.tfrecord")
    content = records.read_bytes()
    assert sorted(names) == sorted(names, key=lambda name: content.index(name.encode()))
