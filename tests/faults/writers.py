"""What the programs write under final names, in small."""

import contextlib
import io
import os
import pathlib

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.run import new_version
from electra_tf.inference.export.saved_model import save_signatures
from electra_tf.training.monitoring.log import TrainLog
from electra_tf.training.monitoring.run_info import read_log
from electra_tf.util.files import whole_folder
from finetune.data.feature_cache import CacheEntry, FeatureCache
from finetune.data.features import SHARED_SPECS
from finetune.results.result_files import read_results, write_results
from finetune.results.summary import TrialResult
from tests.faults import build_writer, checkpoint_writer, vocabulary_writer
from tests.faults.checkpoint_writer import Run
from tests.faults.writer import NEW, NONE, OLD, Writer


def _trials(count: int) -> list[TrialResult]:
    main = {"task/dev": "accuracy"}
    return [
        TrialResult(trial=i, seed=i, metrics={"task/dev": {"accuracy": 50.0 + i}}, main=main)
        for i in range(count)
    ]


def _write_results(folder: pathlib.Path, count: int) -> None:
    write_results(
        _trials(count), model_name="m", tasks_label="task", results_dir=str(folder / "results")
    )


def _read_results(folder: pathlib.Path) -> str:
    found = read_results(folder / "results/task_results.json")
    assert found.trials == _trials(len(found.trials))
    return {1: OLD, 2: NEW}[len(found.trials)]


def _cache(folder: pathlib.Path) -> FeatureCache:
    return FeatureCache(str(folder / "cache"), print_fn=lambda line: None)


_ROWS = [
    {name: np.arange(20 + i, dtype=np.int32) for name in ("input_ids", "segment_ids")}
    for i in range(9)
]


def _save_features(folder: pathlib.Path) -> None:
    _cache(folder).save("task", "f" * 64, SHARED_SPECS, CacheEntry(_ROWS, {}))


def _load_features(folder: pathlib.Path) -> str:
    found = _cache(folder).load("task", "f" * 64, SHARED_SPECS)
    if found is None:
        return NONE
    assert [len(row["input_ids"]) for row in found.rows] == [20 + i for i in range(9)]
    return NEW


def _export(folder: pathlib.Path) -> None:
    if (folder / "export/1").exists():
        return
    run = Run(folder)
    run.set(7)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x")])
    def answer(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x + run.model.bias}

    with new_version(folder / "export", 1) as directory:
        save_signatures({"serving_default": answer.get_concrete_function()}, directory)


def _read_export(folder: pathlib.Path) -> str:
    """As a model server, which serves every numbered folder."""
    if not (folder / "export/1").is_dir():
        return NONE
    served = tf.saved_model.load(str(folder / "export/1")).signatures["serving_default"]
    assert float(served(x=tf.constant(1.0))["y"][0]) == 8
    return NEW


_FILES = {"config.json": b"{}" * 400, "weights/model.bin": b"weights " * 300}


def _convert(folder: pathlib.Path) -> None:
    """As converters of other formats, which do not flush what they write."""
    with whole_folder(folder / "converted") as temporary:
        for name, content in _FILES.items():
            path = pathlib.Path(temporary, name)
            os.makedirs(path.parent, exist_ok=True)
            path.write_bytes(content)


def _read_converted(folder: pathlib.Path) -> str:
    converted = folder / "converted"
    if not converted.is_dir():
        return NONE
    for name, content in _FILES.items():
        assert (converted / name).read_bytes() == content, f"{name} is damaged"
    return NEW


def _read_log_after_restart(folder: pathlib.Path) -> str:
    model = folder / "models/run"
    TrainLog(str(model), first_step=2, num_train_steps=9, batch_size=1).close()
    records = read_log(model / "train_log.jsonl")
    steps = [record["step"] for record in records if record["kind"] == "train"]
    return NONE if steps == [] else {1: OLD, 2: NEW}[len(steps)]


def _write_log(folder: pathlib.Path, step: int) -> None:
    model = str(folder / "models/run")
    log = TrainLog(
        model, first_step=step - 1, num_train_steps=9, batch_size=1, stream=io.StringIO()
    )
    with contextlib.closing(log):
        log.training(step, {"loss": 1.0})


def _write_carelessly(folder: pathlib.Path) -> None:
    (folder / "file.tmp").write_bytes(b"content" * 300)
    os.replace(folder / "file.tmp", folder / "file")


def _read_carelessly(folder: pathlib.Path) -> str:
    if not (folder / "file").exists():
        return NONE
    assert (folder / "file").read_bytes() == b"content" * 300
    return NEW


def _nothing(folder: pathlib.Path) -> None:
    pass


# What the trials must find fault with.
CARELESS = Writer("careless", _nothing, _write_carelessly, _read_carelessly, (NONE,))
WRITERS = (
    *checkpoint_writer.WRITERS,
    Writer("records", *build_writer.FIRST, (NONE,), may_refuse=True),
    Writer("records again", *build_writer.AGAIN, (OLD,), may_refuse=True),
    Writer("vocabulary", *vocabulary_writer.FIRST, (NONE,), may_refuse=True),
    Writer("vocabulary again", *vocabulary_writer.AGAIN, (OLD,), may_refuse=True),
    Writer("features", _nothing, _save_features, _load_features, (NONE,), is_kept=False),
    Writer(
        "results",
        lambda folder: _write_results(folder, 1),
        lambda folder: _write_results(folder, 2),
        _read_results,
        (OLD,),
    ),
    Writer("export", _nothing, _export, _read_export, (NONE,)),
    Writer("converted model", _nothing, _convert, _read_converted, (NONE,)),
    Writer(
        "log",
        lambda folder: _write_log(folder, 1),
        lambda folder: _write_log(folder, 2),
        _read_log_after_restart,
        (OLD, NONE),
        is_kept=False,
    ),
)
