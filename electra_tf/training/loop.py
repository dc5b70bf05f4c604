"""The training loop: updates, log, evaluations, checkpoints, preemption.

It is independent of pre-training and fine-tuning. Both provide segments of updates, and
functions that summarize metrics, evaluate, and report a non-finite loss.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.text.inspected_tokens import InspectedToken
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution.preemption import Preemption
from electra_tf.training.learning_rate import last_learning_rate
from electra_tf.training.monitoring.log import SilentLog, TrainLog
from electra_tf.training.step import TrainingSteps
from electra_tf.util.errors import PreemptedError, UserError


class Intervals(NamedTuple):
    """Intervals in training steps.

    Attributes:
        host_loop: steps per call of the compiled function.
        log, save: logging and checkpoint intervals.
        evaluate: evaluation interval; None evaluates only at the last step, if at all.
    """

    host_loop: int
    log: int
    save: int
    evaluate: int | None = None

    def next_stop(self, step: int, end_step: int) -> int:
        """Returns the next step at which control returns to the host."""
        return min(end_step, *((step // n + 1) * n for n in self if n is not None))


class Segment(NamedTuple):
    """Updates by one compiled step, on the batches of one iterator.

    Attributes:
        end_step: global step at its end.
        steps: the compiled step.
        batches: distributed iterator, positioned at the start of the segment.
        guard: context manager around each call of the compiled function, to explain errors.
        lengths: sequence lengths of the batches, if they differ.
    """

    end_step: int
    steps: TrainingSteps
    batches: Iterator
    guard: Callable[[], AbstractContextManager] = contextlib.nullcontext
    lengths: Sequence[int] = ()


class Evaluation(NamedTuple):
    """Result of an evaluation.

    Attributes:
        values: the metrics.
        shown: console line of the metrics; None prints the usual columns.
        stop: whether to stop training early.
        sentences: held-out sentences with replacements, to look at.
    """

    values: Mapping[str, float]
    shown: str | None = None
    stop: bool = False
    sentences: Sequence[Sequence[InspectedToken]] = ()


class LoopResult(NamedTuple):
    """Result of the loop: last step, metrics, and whether it stopped early.

    `values` are those of the last evaluation, or of training if there was none.
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
    non_finite_error: Callable[[Sequence[str], int, str | None], Exception],
    evaluate: Callable[[], Evaluation] | None = None,
    save_last: bool = True,
) -> LoopResult:
    """Trains to the end of the last segment, or until an evaluation requests a stop.

    Control returns to the host at multiples of the intervals and at the end of each segment.
    There, the loop logs, evaluates and saves if due, and checks for preemption, in the same
    order on all workers. The last step is always logged and evaluated. The intervals do not
    affect the weights.

    Args:
        segments: segments in order; each is taken when the previous one has ended.
        step: the global step.
        num_train_steps: total number of training steps.
        intervals: intervals of host loop, log, checkpoints and evaluation.
        checkpoints: checkpoints of the run.
        log: log of metrics; closed at the end.
        preemption: termination signals, deferred to the next return to the host.
        summarize: computes metrics from the sums of `TrainingSteps.read_metrics`.
        non_finite_error: creates the error, given the names of what is not finite (losses,
            norms, weights), the step and the latest checkpoint.
        evaluate: evaluates the current weights.
        save_last: save at the last step.

    Raises:
        PreemptedError: the run was preempted, after saving its last step.
        UserError: a segment's batches end before its last step.
        Exception: result of `non_finite_error`; that step is not saved.
    """
    values: dict[str, float] = {}
    current = int(step.numpy())
    with _closing(log), preemption.deferred():
        for segment in _run_to_stops(segments, step, num_train_steps, intervals, log):
            current = int(step.numpy())
            terms = segment.steps.non_finite_terms()
            if terms:
                raise non_finite_error(terms, current, checkpoints.latest)
            is_last = current == num_train_steps
            if current == segment.end_step or _is_due(intervals.log, current):
                values = summarize(segment.steps.read_metrics())
                log.training(current, values)

            evaluation = None
            evaluates = evaluate is not None and (
                is_last or _is_due(intervals.evaluate, current)
            )
            saves = save_last if is_last else _is_due(intervals.save, current)
            with log.clock_stopped():
                if is_last or saves or evaluates:
                    _check_weights(segment, current, checkpoints, non_finite_error)
                # Before saving: a killed run that resumes from a step has evaluated it.
                if evaluates:
                    evaluation = evaluate()
                    log.evaluation(
                        current, evaluation.values, evaluation.shown, evaluation.sentences
                    )
                if saves:
                    checkpoints.save()

            if evaluation is not None:
                values = dict(evaluation.values)
            if evaluation is not None and evaluation.stop:
                if not (saves or is_last):
                    checkpoints.save()
                return LoopResult(current, values, stopped_early=True)
            if not is_last and preemption.requested():
                if not saves:
                    _check_weights(segment, current, checkpoints, non_finite_error)
                    checkpoints.save()
                raise PreemptedError(
                    f"Preempted at step {current}; saved {checkpoints.latest}. Run the "
                    "same command again to resume."
                )
    return LoopResult(current, values, stopped_early=False)


def training_values(
    sums: Mapping[str, np.ndarray], optimizer: keras.optimizers.Optimizer
) -> dict[str, float]:
    """Returns the metrics of the model, losses and norms of the steps, and learning rate."""
    values = metrics.finalize(sums)
    prefix = metrics.STEP_PREFIX
    model_values = {n: v for n, v in values.items() if not n.startswith(prefix)}
    step_values = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
    return {**model_values, **step_values, "learning_rate": last_learning_rate(optimizer)}


@contextlib.contextmanager
def _closing(log: TrainLog | SilentLog) -> Iterator[None]:
    """Closes the log, with the error that ended the training early, if any."""
    try:
        yield
    except BaseException as error:
        log.close(error)
        raise
    log.close()


def _run_to_stops(
    segments: Iterable[Segment],
    step: tf.Variable,
    num_train_steps: int,
    intervals: Intervals,
    log: TrainLog | SilentLog,
) -> Iterator[Segment]:
    """Trains, and yields the current segment at each return to the host."""
    for segment in segments:
        while (current := int(step.numpy())) < segment.end_step:
            stop = intervals.next_stop(current, min(segment.end_step, num_train_steps))
            with segment.guard(), _refusing_end_of_batches(step, num_train_steps):
                segment.steps.run(segment.batches, stop - current, segment.lengths)
            log.progress(stop)
            yield segment
        log.clear_progress()


@contextlib.contextmanager
def _refusing_end_of_batches(step: tf.Variable, num_train_steps: int) -> Iterator[None]:
    """Raises UserError if the batches end before the steps do."""
    try:
        yield
    except tf.errors.OutOfRangeError as error:
        raise UserError(
            f"The batches ended after step {int(step.numpy())} of {num_train_steps}: the "
            "training loop needs endless batches, such as those of Dataset.repeat()"
        ) from error


def _check_weights(
    segment: Segment,
    step: int,
    checkpoints: CheckpointDirectory,
    non_finite_error: Callable[[Sequence[str], int, str | None], Exception],
) -> None:
    """Raises the error if a finite update has made weights non-finite."""
    failed = segment.steps.non_finite_weights()
    if failed:
        raise non_finite_error(failed, step, checkpoints.latest)


def _is_due(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0
