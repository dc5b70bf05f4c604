"""What the training loop does at its stops, and in which order, with steps that only count."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.learning_rate import WarmupPolynomialDecay
from electra_tf.training.loop import (
    Evaluation,
    Intervals,
    LoopResult,
    Segment,
    run_loop,
    training_values,
)
from electra_tf.training.optimizer import make_optimizer
from electra_tf.util.errors import PreemptedError, UserError


class DivergedError(Exception):
    """A loss was not finite."""


@dataclasses.dataclass
class FakeRun:
    """Stands for everything that the loop is given, and notes what it does.

    Attributes:
        stops_at: step whose evaluation stops training.
        preempted_from: step from which on a preemption is requested.
        diverges_at: step whose loss is not finite; a run of steps ends there.
        ruined_at: step from which on weights are not finite.
    """

    first_step: int = 0
    stops_at: int | None = None
    preempted_from: int | None = None
    diverges_at: int | None = None
    ruined_at: int | None = None

    def __post_init__(self) -> None:
        self.step = tf.Variable(self.first_step, dtype=tf.int64)
        self.events: list[str] = []
        self.latest: str | None = None
        self.deferring = False

    # As TrainingSteps.
    def run(self, iterator: Iterator, num_steps: int, lengths: Sequence[int]) -> None:
        assert self.deferring
        current = int(self.step.numpy())
        end = current + num_steps
        if self.diverges_at is not None and current < self.diverges_at:
            end = min(end, self.diverges_at)
        self.step.assign(end)
        self.events.append(f"{next(iterator)} to {end}")

    def non_finite_terms(self) -> list[str]:
        return ["train/loss"] if int(self.step.numpy()) == self.diverges_at else []

    def non_finite_weights(self) -> list[str]:
        ruined = self.ruined_at is not None and int(self.step.numpy()) >= self.ruined_at
        return ["weights of electra/layer_0"] if ruined else []

    def read_metrics(self) -> dict[str, np.ndarray]:
        return {"train/loss": np.array([float(self.step.numpy()), 1.0])}

    # As CheckpointDirectory.
    def save(self) -> None:
        self.latest = f"ckpt-{int(self.step.numpy())}"
        self.events.append("save")

    # As TrainLog.
    def training(self, step: int, values: dict[str, float]) -> None:
        assert step == int(self.step.numpy())
        self.events.append(f"log {values['loss']:g}")

    def evaluation(self, step: int, values: dict, shown: str | None, sentences: tuple) -> None:
        assert (values, shown, sentences) == ({"accuracy": step / 10}, "shown", ())
        self.events.append("evaluation")

    @contextlib.contextmanager
    def clock_stopped(self) -> Iterator[None]:
        self.is_clock_stopped = True
        yield
        self.is_clock_stopped = False

    def progress(self, step: int) -> None:
        """Shows no bar."""

    def clear_progress(self) -> None:
        """Shows no bar."""

    def close(self, error: BaseException | None = None) -> None:
        self.ended_by = error
        self.events.append("close")

    # As Preemption.
    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        self.deferring = True
        yield
        self.deferring = False

    def requested(self) -> bool:
        self.events.append("asked")
        return self.preempted_from is not None and self.step.numpy() >= self.preempted_from

    def evaluate(self) -> Evaluation:
        assert self.is_clock_stopped
        step = int(self.step.numpy())
        return Evaluation({"accuracy": step / 10}, "shown", stop=step == self.stops_at)

    def diverged(self, terms: list[str], step: int, checkpoint: str | None) -> DivergedError:
        return DivergedError(f"{terms} {step} {checkpoint}")

    def segments(self, *end_steps: int) -> Iterator[Segment]:
        assert self.deferring
        for end in end_steps:
            self.events.append(f"segment from {int(self.step.numpy())}")
            yield Segment(end, self, iter([f"until {end}"] * end), self.guard)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        self.events.append("(")
        yield
        self.events.append(")")

    def loop(
        self,
        intervals: Intervals,
        end_steps: tuple[int, ...] = (6,),
        *,
        evaluates: bool = False,
        **options: bool,
    ) -> LoopResult:
        return run_loop(
            self.segments(*end_steps),
            step=self.step,
            num_train_steps=end_steps[-1],
            intervals=intervals,
            checkpoints=self,
            log=self,
            preemption=self,
            summarize=lambda sums: {"loss": sums["train/loss"][0]},
            non_finite_error=self.diverged,
            evaluate=self.evaluate if evaluates else None,
            **options,
        )

    def happened(self) -> list[str]:
        """Returns the events but for guards and preparations."""
        return [e for e in self.events if e not in "()" and not e.startswith("segment")]


EVERY = Intervals(host_loop=100, log=3, save=2)


def test_stops_are_multiples_of_the_intervals_and_the_end():
    intervals = Intervals(host_loop=4, log=6, save=10, evaluate=7)
    stops, step = [], 0
    while step < 22:
        step = intervals.next_stop(step, 22)
        stops.append(step)
    assert stops == [4, 6, 7, 8, 10, 12, 14, 16, 18, 20, 21, 22]
    assert Intervals(5, 5, 5).next_stop(5, 100) == 10
    assert Intervals(5, 5, 5).next_stop(3, 4) == 4


def test_logs_and_saves_what_is_due_then_asks_for_a_preemption():
    run = FakeRun()
    assert run.loop(EVERY) == LoopResult(6, {"loss": 6.0}, stopped_early=False)
    assert run.happened() == [
        *("until 6 to 2", "save", "asked"),
        *("until 6 to 3", "log 3", "asked"),
        *("until 6 to 4", "save", "asked"),
        # Nobody is asked at the last step: the run is over anyhow.
        *("until 6 to 6", "log 6", "save"),
        "close",
    ]
    assert not run.deferring


def test_the_guard_is_around_the_steps_alone():
    run = FakeRun()
    run.loop(Intervals(3, 3, 3), (3,))
    assert run.events == ["segment from 0", "(", "until 3 to 3", ")", "log 3", "save", "close"]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ["log 6", "evaluation", "save"]),
        ({"save_last": False}, ["log 6", "evaluation"]),
    ],
)
def test_a_saved_step_has_been_evaluated(options, order):
    run = FakeRun()
    result = run.loop(EVERY._replace(evaluate=2), evaluates=True, **options)
    assert result == LoopResult(6, {"accuracy": 0.6}, stopped_early=False)
    assert run.happened()[-len(order) - 1 :] == [*order, "close"]
    middle = [event for event in order if event != "log 6"]
    if len(middle) == 2:
        assert run.happened()[:4] == ["until 6 to 2", *middle, "asked"]


def test_the_last_step_is_evaluated_whatever_the_interval():
    run = FakeRun()
    run.loop(EVERY._replace(evaluate=4), (5,), evaluates=True)
    assert run.happened()[-5:] == ["until 5 to 5", "log 5", "evaluation", "save", "close"]
    assert run.events.count("evaluation") == 2
    silent = FakeRun()
    silent.loop(EVERY._replace(evaluate=4), (5,))
    assert "evaluation" not in silent.events


@pytest.mark.parametrize(("stops_at", "latest"), [(3, 3), (4, 4), (6, 4)])
def test_an_early_stop_saves_once_and_asks_no_more(stops_at, latest):
    run = FakeRun(stops_at=stops_at)
    result = run.loop(
        EVERY._replace(evaluate=1),
        evaluates=True,
        save_last=False,
    )
    assert result == LoopResult(stops_at, {"accuracy": stops_at / 10}, stopped_early=True)
    assert run.latest == f"ckpt-{latest}"
    assert run.events.count("save") == 2
    assert run.events.count("asked") == stops_at - 1
    assert run.events[-1] == "close"


@pytest.mark.parametrize(("preempted_from", "stop"), [(1, 2), (3, 3), (4, 4)])
def test_a_preempted_run_saves_once_at_the_next_stop(preempted_from, stop):
    run = FakeRun(preempted_from=preempted_from)
    with pytest.raises(PreemptedError, match=rf"step {stop}; saved ckpt-{stop}\. Run the same"):
        run.loop(EVERY)
    saved_before = 1 if stop == 3 else 0
    assert run.events[-3:].count("save") == 1
    assert run.events.count("save") == saved_before + (2 if stop == 4 else 1)
    assert run.events[-1] == "close"
    assert isinstance(run.ended_by, PreemptedError)


def test_a_preemption_at_the_last_step_is_too_late():
    run = FakeRun(preempted_from=5)
    assert run.loop(EVERY).step == 6
    assert run.ended_by is None
    assert run.latest == "ckpt-6"


def test_a_loss_that_is_not_finite_ends_the_run_before_anything_of_it_is_kept():
    run = FakeRun(diverges_at=4)
    with pytest.raises(DivergedError, match=r"\['train/loss'\] 4 ckpt-2"):
        run.loop(EVERY._replace(evaluate=1), evaluates=True)
    assert run.happened()[-2:] == ["until 6 to 4", "close"]
    assert isinstance(run.ended_by, DivergedError)


@pytest.mark.parametrize(
    "options",
    [
        {"intervals": EVERY},
        {"intervals": EVERY._replace(save=100, evaluate=2), "evaluates": True},
        {"intervals": EVERY._replace(save=100), "save_last": False},
    ],
)
@pytest.mark.parametrize("preempted_from", [None, 3])
def test_infinite_weights_replace_no_checkpoint(options, preempted_from):
    run, options = FakeRun(ruined_at=3, preempted_from=preempted_from), dict(options)
    with pytest.raises(DivergedError, match=r"weights of electra/layer_0"):
        run.loop(options.pop("intervals"), **options)
    assert run.latest in (None, "ckpt-2")


def test_segments_end_in_a_log_line_and_begin_when_the_one_before_has_ended():
    run = FakeRun()
    result = run.loop(Intervals(100, 100, 100), (2, 5))
    assert result.values == {"loss": 5.0}
    assert [event for event in run.events if event not in "()"] == [
        *("segment from 0", "until 2 to 2", "log 2", "asked"),
        *("segment from 2", "until 5 to 5", "log 5", "save", "close"),
    ]


def test_a_run_goes_on_from_its_step_at_the_same_stops():
    run = FakeRun(first_step=5)
    run.loop(EVERY, (8,))
    assert run.happened() == [
        *("until 8 to 6", "log 6", "save", "asked"),
        *("until 8 to 8", "log 8", "save", "close"),
    ]


def test_training_values_are_means_without_prefix_and_the_newest_rate():
    schedule = WarmupPolynomialDecay(1.0, 10)
    optimizer = make_optimizer("adam", schedule, weight_decay_rate=0.0)
    variable = keras.Variable([1.0])
    optimizer.build([variable])
    for _ in range(3):
        optimizer.apply([tf.constant([1.0])], [variable])
    sums = {"train/loss": np.array([6.0, 3.0]), "train/gen_loss": np.array([3.0, 2.0])}
    values = training_values(sums, optimizer)
    assert values == {
        "loss": 2.0,
        "gen_loss": 1.5,
        "learning_rate": pytest.approx(float(schedule(2))),
    }


def test_batches_that_end_before_the_steps_are_named(monkeypatch):
    run = FakeRun(first_step=3)

    def end(*_) -> None:
        run.step.assign(5)
        raise tf.errors.OutOfRangeError(None, None, "End of sequence")

    monkeypatch.setattr(run, "run", end)
    with pytest.raises(UserError, match=r"batches ended after step 5 of 6: .* endless batches"):
        run.loop(EVERY)
    assert isinstance(run.ended_by, UserError)
