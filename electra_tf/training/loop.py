"""The training loop: updates, log, evaluations, checkpoints, preemption.

It knows neither pre-training nor fine-tuning. Both give it segments of updates, and functions
that summarize metrics, evaluate, and say what a loss that is not finite means.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.training.checkpoints import CheckpointDirectory
from electra_tf.training.distribution.workers import Preemption
from electra_tf.training.learning_rate import last_learning_rate
from electra_tf.training.log import SilentLog, TrainLog
from electra_tf.training.step import TrainingSteps
from electra_tf.util.errors import PreemptedError

_TRAIN_PREFIX = "train/"


class Intervals(NamedTuple):
    """Numbers of updates.

    Attributes:
        host_loop: in one call of the compiled function.
        log, save: between two log lines, and between two checkpoints.
        evaluate: between two evaluations; None evaluates at the last step alone, if at all.
    """

    host_loop: int
    log: int
    save: int
    evaluate: int | None = None

    def next_stop(self, step: int, end_step: int) -> int:
        """Returns the next step at which the host has something to do."""
        return min(end_step, *((step // n + 1) * n for n in self if n is not None))


class Segment(NamedTuple):
    """Updates with one compiled step, on the batches of one iterator.

    Attributes:
        end_step: updates done after it.
        steps: the compiled step.
        batches: distributed iterator; it starts where the segment does.
        guard: entered around each call of the compiled function, to explain its errors.
    """

    end_step: int
    steps: TrainingSteps
    batches: Iterator
    guard: Callable[[], AbstractContextManager] = contextlib.nullcontext


class Evaluation(NamedTuple):
    """What an evaluation found.

    Attributes:
        values: the metrics.
        shown: their console line; the usual columns if None.
        stop: training is to stop early.
    """

    values: Mapping[str, float]
    shown: str | None = None
    stop: bool = False


class LoopResult(NamedTuple):
    """How the loop ended: at which step, with which metrics, and whether before its end.

    `values` are those of the last evaluation, or of training without one.
    """

    step: int
    values: dict[str, float]
    stopped_early: bool


def run_loop(
    segments: Iterable[Segment],
    *,
    step: tf.Variable,
    num_train_steps: int,
    intervals: Intervals,
    checkpoints: CheckpointDirectory,
    log: TrainLog | SilentLog,
    preemption: Preemption,
    summarize: Callable[[Mapping[str, np.ndarray]], dict[str, float]],
    diverged: Callable[[Sequence[str], int, str | None], Exception],
    evaluate: Callable[[], Evaluation] | None = None,
    evaluate_before_save: bool = False,
    save_last: bool = True,
) -> LoopResult:
    """Trains to the end of the last segment, or until an evaluation says to stop.

    The loop stops at multiples of the intervals and at the end of each segment. At a stop it
    logs, evaluates and saves what is due, and asks for a preemption, in the same order on all
    workers. The last step is always logged and evaluated. Stops do not change the weights.

    Args:
        segments: in their order; each is asked for when the one before has ended.
        step: counts finished updates.
        num_train_steps: updates of the whole run.
        intervals: between the stops.
        checkpoints: of the run.
        log: of metrics; closed at the end.
        preemption: watched; its signals are deferred to the next stop.
        summarize: returns metrics from the sums of `TrainingSteps.read_metrics`.
        diverged: returns the error for the names of the terms that are not finite, the step
            and the newest checkpoint.
        evaluate: evaluates the current weights.
        evaluate_before_save: so that a checkpoint is of a step whose evaluation is known.
        save_last: save at the last step.

    Raises:
        PreemptedError: the run was told to end; a checkpoint of its last step is there.
        Exception: what `diverged` returns; nothing of that step is saved.
    """
    values: dict[str, float] = {}
    current = int(step.numpy())
    with contextlib.closing(log), preemption.deferred():
        for segment in _run_to_stops(segments, step, num_train_steps, intervals):
            current = int(step.numpy())
            terms = segment.steps.non_finite_terms()
            if terms:
                raise diverged(terms, current, checkpoints.latest)
            is_last = current == num_train_steps
            if current == segment.end_step or _is_due(intervals.log, current):
                values = summarize(segment.steps.read_metrics())
                log.training(current, values)

            evaluation = None
            evaluates = evaluate is not None and (
                is_last or _is_due(intervals.evaluate, current)
            )
            saves = save_last if is_last else _is_due(intervals.save, current)
            if evaluates and evaluate_before_save:
                evaluation = _evaluate(evaluate, current, log)
            if saves:
                checkpoints.save()
                log.restart_clock()
            if evaluates and not evaluate_before_save:
                evaluation = _evaluate(evaluate, current, log)

            if evaluation is not None:
                values = dict(evaluation.values)
            if evaluation is not None and evaluation.stop:
                if not (saves or is_last):
                    checkpoints.save()
                return LoopResult(current, values, stopped_early=True)
            if not is_last and preemption.requested():
                if not saves:
                    checkpoints.save()
                raise PreemptedError(
                    f"Preempted at step {current}; saved {checkpoints.latest}. Run the "
                    "same command again to go on."
                )
    return LoopResult(current, values, stopped_early=False)


def training_values(
    sums: Mapping[str, np.ndarray], optimizer: keras.optimizers.Optimizer
) -> dict[str, float]:
    """Returns the model's metrics, the loss terms and norms of the steps, the learning rate."""
    values = metrics.finalize(sums)
    of_model = {n: v for n, v in values.items() if not n.startswith(_TRAIN_PREFIX)}
    of_steps = {
        n.removeprefix(_TRAIN_PREFIX): v
        for n, v in values.items()
        if n.startswith(_TRAIN_PREFIX)
    }
    return {**of_model, **of_steps, "learning_rate": last_learning_rate(optimizer)}


def _run_to_stops(
    segments: Iterable[Segment], step: tf.Variable, num_train_steps: int, intervals: Intervals
) -> Iterator[Segment]:
    """Trains, and yields at each stop the segment that it lies in."""
    for segment in segments:
        while (current := int(step.numpy())) < segment.end_step:
            stop = intervals.next_stop(current, min(segment.end_step, num_train_steps))
            with segment.guard():
                segment.steps.run(segment.batches, stop - current)
            yield segment


def _is_due(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0


def _evaluate(
    evaluate: Callable[[], Evaluation], step: int, log: TrainLog | SilentLog
) -> Evaluation:
    evaluation = evaluate()
    log.evaluation(step, evaluation.values, evaluation.shown)
    log.restart_clock()
    return evaluation
