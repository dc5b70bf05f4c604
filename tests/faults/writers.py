"""What the programs write under final names, in small: each writer with what it finds before.

A reader says which version the programs' own code finds: `OLD`, `NEW` or `NONE`. A message of
it to the user is a refusal.
"""

import contextlib
import io
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.run import new_version
from electra_tf.inference.export.saved_model import save_signatures
from electra_tf.training.best_checkpoint import BestCheckpoint
from electra_tf.training.checkpoints import CheckpointDirectory
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.log import TrainLog
from electra_tf.training.run_info import read_log
from electra_tf.util.files import whole_folder
from finetune.data.feature_cache import CacheEntry, FeatureCache
from finetune.data.features import SHARED_SPECS
from finetune.results.result_files import read_results, write_results
from finetune.results.summary import TrialResult
from tests.faults import build_writer, vocabulary_writer

OLD, NEW, NONE = "old", "new", "none"
_KEEP_ALL = 0


class Writer(NamedTuple):
    """Something that is written.

    Attributes:
        name: what it is.
        prepare: makes the folder as it is before; what it writes is safe.
        write: the writing, which ends when the user may rely on it.
        read: what the programs find.
        may_find: what they may find until then, beside NEW.
        may_refuse: whether they may refuse to read until then.
        is_kept: whether it must survive a power cut afterwards; a cache need not.
    """

    name: str
    prepare: Callable[[pathlib.Path], None]
    write: Callable[[pathlib.Path], None]
    read: Callable[[pathlib.Path], str]
    may_find: tuple[str, ...]
    may_refuse: bool = False
    is_kept: bool = True


class Weights(tf.Module):
    """Stands for a model."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(tf.zeros([40, 10]))
        self.bias = tf.Variable(tf.zeros([300]))

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """Without those of a run's description."""
        return ()


class Run:
    """A run whose weights equal its step."""

    def __init__(self, folder: pathlib.Path, keep: int = 2) -> None:
        self.model, self.step = Weights(), tf.Variable(0, dtype=tf.int64, trainable=False)
        self.folder = str(folder / "models/run")
        self.checkpoints = CheckpointDirectory(
            self.folder, self.model, self.step, keep_checkpoint_max=keep
        )

    def save(self, step: int, value: float | None = None) -> None:
        """Saves weights of a value, by default the step."""
        self.set(step, value)
        self.checkpoints.save()

    def set(self, step: int, value: float | None = None) -> None:
        """Takes the weights of a step."""
        self.step.assign(step)
        for variable in (self.model.table, self.model.bias):
            variable.assign(tf.fill(variable.shape, float(step if value is None else value)))

    def value(self) -> float:
        """Returns that of the weights, which must all be the same."""
        found = {*self.model.table.numpy().flat, *self.model.bias.numpy().flat}
        assert len(found) == 1, f"weights of several steps: {found}"
        return found.pop()


def checkpoints(name: str, before: tuple[int, ...], step: int, keep: int) -> Writer:
    """A run that goes on after `before`, and saves `step`."""

    def prepare(folder: pathlib.Path) -> None:
        run = Run(folder, keep)
        for each in before:
            run.save(each)

    def write(folder: pathlib.Path) -> None:
        run = Run(folder, keep)
        run.checkpoints.restore_latest()
        run.save(step)

    def read(folder: pathlib.Path) -> str:
        run = Run(folder, keep)
        if not run.checkpoints.restore_latest():
            return NONE
        assert run.value() == int(run.step), "weights of another step"
        newest = max(before, default=None)
        return {step: NEW, newest: OLD}.get(int(run.step), f"step {int(run.step)}")

    return Writer(name, prepare, write, read, (OLD,) if before else (NONE,))


def _save_again(folder: pathlib.Path) -> None:
    Run(folder).save(4, value=5)


def _read_saved_again(folder: pathlib.Path) -> str:
    run = Run(folder)
    if not run.checkpoints.restore_latest():
        return NONE
    return {(4, 5): NEW, (4, 4): OLD, (2, 2): "step 2"}[int(run.step), run.value()]


def _prepare_two(folder: pathlib.Path) -> None:
    run = Run(folder)
    run.save(2)
    run.save(4)


def _best(folder: pathlib.Path, step: int) -> tuple[BestCheckpoint, Run]:
    run = Run(folder, _KEEP_ALL)
    run.set(step)
    workers = Workers(tf.distribute.get_strategy())
    best = BestCheckpoint(run.folder, run.model, run.step, workers, keeps_weights=True)
    return best, run


def _update_best(folder: pathlib.Path, step: int) -> None:
    best, _ = _best(folder, step)
    best.update(step / 10)


def _read_best(folder: pathlib.Path) -> str:
    best, run = _best(folder, 4)
    if best.step is None:
        return NONE
    best.restore()
    assert run.value() == int(run.step) == best.step
    return {2: OLD, 4: NEW}[best.step]


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
    steps = [record["step"] for record in read_log(model / "train_log.jsonl")]
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
    checkpoints("checkpoint", (2, 4), 6, keep=2),
    checkpoints("the only checkpoint kept", (4,), 6, keep=1),
    checkpoints("first checkpoint", (), 2, keep=2),
    Writer(
        "checkpoint of a step again",
        _prepare_two,
        _save_again,
        _read_saved_again,
        (OLD, "step 2"),
    ),
    Writer(
        "best checkpoint",
        lambda folder: _update_best(folder, 2),
        lambda folder: _update_best(folder, 4),
        _read_best,
        (OLD,),
    ),
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
