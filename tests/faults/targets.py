"""Files that the programs read, each with the code that reads it."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.resumption import changes_of_resumed_run
from electra_tf.config.saved_config import load_saved_config
from electra_tf.inference.export.saved_model import (
    EXTRA_FOLDER,
    save_signatures,
    write_checksums,
)
from electra_tf.inference.export.servable import DESCRIPTION_FILE, TOKENIZER_FILE
from electra_tf.inference.web_demo.models import ExportedModel
from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    TokenizerDescription,
    tokenizer_settings,
)
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.distribution.shards import UNSHARDED
from electra_tf.util.files import to_json, write_atomically
from finetune.data.feature_cache import CacheEntry, FeatureCache
from finetune.data.features import SHARED_SPECS
from finetune.results.result_files import read_results, write_results
from finetune.results.summary import TrialResult
from pretrain_data.records.manifest import Manifest, load_manifest, write_manifest
from pretrain_data.records.source import RecordFiles
from tests.faults import text_targets
from tests.faults.build_writer import LENGTH, demo_vocabulary, write_shards
from tests.faults.checkpoint_writer import Run, best_of
from tests.faults.damages import DAMAGES


class Target(NamedTuple):
    """Files of one kind.

    Attributes:
        name: what they are.
        make: writes them to a new folder.
        damaged: pattern of those to damage, from the folder.
        outcome: what the programs make of them, comparable.
        legal: damages that may leave another legal input, since no program knows better.
    """

    name: str
    make: Callable[[pathlib.Path], None]
    damaged: str
    outcome: Callable[[pathlib.Path], Any]
    legal: Sequence[str] = ()


def _checkpoints(*steps: int, manifest: bool = True) -> Callable[[pathlib.Path], None]:
    def make(folder: pathlib.Path) -> None:
        for step in steps:
            Run(folder).save(step)
        for path in folder.rglob("*.manifest.json"):
            if not manifest:
                path.unlink()

    return make


def _restore(folder: pathlib.Path) -> Any:
    run = Run(folder)
    return run.checkpoints.restore_latest() and (int(run.step), run.value())


def _settings(folder: pathlib.Path) -> dict[str, Any]:
    config = PretrainingConfig.create(
        data_dir="/data", model_name="run", model_dir=str(folder / "models/run"), vocab_size=100
    )
    return {**dataclasses.asdict(config), "data": {"128": "digest"}, "model_dir": "run"}


def _make_run(folder: pathlib.Path) -> None:
    run = Run(folder)
    run.save(2)
    run.checkpoints.write_description(_settings(folder), demo_vocabulary().path)


def _resume_run(folder: pathlib.Path) -> Any:
    """As a run that is started again, and as an export."""
    model = folder / "models/run"
    config = PretrainingConfig.create(
        data_dir="/data", model_name="run", model_dir=str(model), vocab_size=100
    )
    changes = changes_of_resumed_run(config, _settings(folder))
    description = load_saved_config(model)
    saved = description.hyperparameters
    vocabulary = load_vocabulary(model / "vocab.txt")
    given = {name: saved[name] for name in TOKENIZER_SETTINGS}
    settings = tokenizer_settings(given, vocabulary.path)
    found = repr((changes, description, settings, vocabulary.sha256))
    return found.replace(str(folder), "")


_MANIFESTS: list[Manifest] = []


def _make_records(folder: pathlib.Path) -> None:
    _MANIFESTS[:] = [write_shards(folder, 1)]


def _make_built_records(folder: pathlib.Path) -> None:
    _MANIFESTS[:] = [write_shards(folder, 1)]
    write_manifest(_MANIFESTS[0], folder)


def _read_records(folder: pathlib.Path) -> Any:
    """As an epoch of training."""
    source = RecordFiles(
        patterns={LENGTH: str(folder / "pretrain_data.tfrecord*")},
        vocab_size=demo_vocabulary().size,
        repeat=False,
    )
    manifest = load_manifest(folder)
    tokenizer = TokenizerDescription(vocab_sha256=demo_vocabulary().sha256)
    source.check(demo_vocabulary(), tokenizer, [LENGTH])
    with source.locating_damage(LENGTH):
        batches = source.batches(
            first_example=0, batch_size=4, seq_length=LENGTH, shard=UNSHARDED
        )
        read = [{name: v.numpy().tolist() for name, v in batch.items()} for batch in batches]
    # Without a manifest, records are only checked by themselves.
    return manifest or _MANIFESTS[0], read


_ROWS = [
    {name: np.arange(5 + i, dtype=np.int32) for name in ("input_ids", "segment_ids")}
    for i in range(9)
]
_PROBLEMS = {"cut": [{"line": 12, "text": "a"}]}


def _cache(folder: pathlib.Path) -> FeatureCache:
    return FeatureCache(str(folder), print_fn=lambda line: None)


def _make_features(folder: pathlib.Path) -> None:
    _cache(folder).save("task", "f" * 64, SHARED_SPECS, CacheEntry(_ROWS, _PROBLEMS))


def _load_features(folder: pathlib.Path) -> Any:
    """Features that are not loaded are made again."""
    found = _cache(folder).load("task", "f" * 64, SHARED_SPECS)
    rows, problems = found or (_ROWS, _PROBLEMS)
    return [{name: v.tolist() for name, v in row.items()} for row in rows], problems


def _make_export(folder: pathlib.Path) -> None:
    table = tf.Variable(tf.reshape(tf.range(600.0), [60, 10]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        places = tf.strings.to_hash_bucket_fast(text, 60)
        return {"replaced": tf.gather(table, places) + tf.constant([0.5] * 10)}

    directory = folder / "1"
    save_signatures({"serving_default": answer.get_concrete_function()}, directory)
    description = TokenizerDescription(vocab_sha256="f" * 64)
    write_atomically(directory / EXTRA_FOLDER / TOKENIZER_FILE, to_json(description.to_dict()))
    write_atomically(
        directory / EXTRA_FOLDER / DESCRIPTION_FILE, to_json({"max_seq_length": 9})
    )
    write_checksums(directory)


def _ask_export(folder: pathlib.Path) -> Any:
    model = ExportedModel(folder, "--discriminator")
    answers = [model.answer(text=text)["replaced"].tolist() for text in ("a", "b c", "")]
    return answers, model.tokenizer, model.description


def _make_results(folder: pathlib.Path) -> None:
    main = {"task/dev": "accuracy"}
    trials = [
        TrialResult(trial=i, seed=i, metrics={"task/dev": {"accuracy": 51.5 + i}}, main=main)
        for i in range(3)
    ]
    write_results(trials, model_name="m", tasks_label="task", results_dir=str(folder))


def _make_best(folder: pathlib.Path) -> None:
    for step in (2, 4, 6):
        best_of(folder, step)[0].update({2: 0.5, 4: 0.7, 6: 0.6}[step])


def _read_best(folder: pathlib.Path) -> Any:
    best, run = best_of(folder, 6)
    if best.step is None:
        return "forgotten"
    best.restore()
    return best.step, best.value, best.evaluations_since_best, run.value()


TARGETS = (
    Target("checkpoint", _checkpoints(2), "models/run/*", _restore),
    Target(
        "checkpoint of an older version",
        _checkpoints(2, manifest=False),
        "models/run/*",
        _restore,
    ),
    Target("the newer of two checkpoints", _checkpoints(2, 4), "models/run/ckpt-4.*", _restore),
    Target("folder of a model", _make_run, "models/run/[cv]*.[jt]*", _resume_run),
    # Without a manifest, nothing tells how many records there were.
    Target("records", _make_records, "*", _read_records, legal=("cut", "a part left out")),
    Target("records with a manifest", _make_built_records, "*-of-*", _read_records),
    Target("manifest of records", _make_built_records, "*.json", _read_records),
    Target("features", _make_features, "*", _load_features),
    Target(
        "vocabulary with a description",
        text_targets.make_vocabulary,
        "vocab.txt",
        text_targets.read_vocabulary,
    ),
    # A vocabulary without one is used with the settings that are given.
    Target(
        "description of a tokenizer",
        text_targets.make_vocabulary,
        "*.json",
        text_targets.read_vocabulary,
        legal=("removed",),
    ),
    Target(
        "vocabulary without a description",
        lambda folder: text_targets.make_vocabulary(folder, described=False),
        "*",
        text_targets.read_vocabulary,
        legal=tuple(DAMAGES),
    ),
    Target(
        "description of a task",
        text_targets.make_task,
        "mine.json",
        text_targets.read_task,
        legal=tuple(DAMAGES),
    ),
    Target(
        "files of a task",
        text_targets.make_task,
        "*.[tj]s*[vl]",
        text_targets.read_task,
        legal=tuple(DAMAGES),
    ),
    Target("export", _make_export, "1/**/*", _ask_export),
    Target(
        "results",
        _make_results,
        "*.json",
        lambda folder: read_results(folder / "task_results.json"),
    ),
    Target("best checkpoint", _make_best, "models/run/*", _read_best),
)


def files_of(target: Target, folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files to damage, sorted."""
    found = [path for path in folder.glob(target.damaged) if path.is_file()]
    assert found, f"{target.name}: no {target.damaged}"
    return sorted(found, key=os.fspath)
