"""Checkpoints, for `tests.faults.writers`."""

import pathlib

import tensorflow as tf

from electra_tf.training.checkpoints.best_checkpoint import BestCheckpoint
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution.workers import Workers
from tests.faults.writer import NEW, NONE, OLD, Writer

_KEEP_ALL = 0


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


def _run_on(name: str, before: tuple[int, ...], step: int, keep: int) -> Writer:
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


def best_of(folder: pathlib.Path, step: int) -> tuple[BestCheckpoint, Run]:
    """Returns the best evaluation until a step, and the run at the step."""
    run = Run(folder, _KEEP_ALL)
    run.set(step)
    workers = Workers(tf.distribute.get_strategy())
    best = BestCheckpoint(run.folder, run.model, run.step, workers, keeps_weights=True)
    return best, run


def _update_best(folder: pathlib.Path, step: int) -> None:
    best, _ = best_of(folder, step)
    best.update(step / 10)


def _read_best(folder: pathlib.Path) -> str:
    best, run = best_of(folder, 4)
    if best.step is None:
        return NONE
    best.restore()
    assert run.value() == int(run.step) == best.step
    return {2: OLD, 4: NEW}[best.step]


WRITERS = (
    _run_on("checkpoint", (2, 4), 6, keep=2),
    _run_on("the only checkpoint kept", (4,), 6, keep=1),
    _run_on("first checkpoint", (), 2, keep=2),
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
)
