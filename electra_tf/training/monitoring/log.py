"""Training log: console lines, TensorBoard scalars and a JSON-lines file."""

import contextlib
import json
import math
import os
import pathlib
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from electra_tf.config.recorded_settings import Change
from electra_tf.text.inspected_tokens import InspectedToken, render
from electra_tf.training.monitoring.diagnoses import RunFacts
from electra_tf.training.monitoring.health import HealthWatch
from electra_tf.training.monitoring.run_info import (
    LOG_FILE,
    SECONDS_LEFT,
    SENTENCES_FILE,
    START,
    read_log,
)
from electra_tf.training.monitoring.step_bar import StepBar
from electra_tf.training.monitoring.trackers import (
    Tracker,
    close_trackers,
    log_to,
    plain_settings,
)
from electra_tf.util.console import format_seconds, warn_once
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import make_folders, write_atomically

TENSORBOARD_DIR = "tensorboard"
# Kind of records that list the changed settings of a resumed run.
_SETTINGS = "settings"
# Evaluations and checkpoints that together take fewer seconds are not warned of.
_LONG_STOPS = 300.0
# Characters that TensorBoard would render as Markdown, such as the ## of a word piece.
_MARKDOWN = re.compile(r"[\\`*_{}\[\]()#+\-.!>]")

# Console columns: name in the log, label, format.
_CONSOLE_COLUMNS = (
    ("mfu", "MFU", ".1%"),
    ("loss", "loss", ".3f"),
    ("gen_loss", "gen", ".3f"),
    ("disc_loss", "disc", ".4f"),
    ("replace_loss", "replace", ".3f"),
    ("policy_loss", "policy", ".3f"),
    ("reward", "reward", ".3f"),
    ("span_boundary_loss", "sbo", ".3f"),
    ("sentence_accuracy", "sent acc", ".3f"),
    ("masked_lm_accuracy", "mlm acc", ".3f"),
    ("full_size_masked_lm_accuracy", "full acc", ".3f"),
    ("sampled_masked_lm_accuracy", "sampled acc", ".3f"),
    ("disc_auc", "auc", ".3f"),
    ("disc_auc_within_token", "auc within token", ".3f"),
    ("disc_accuracy", "acc", ".3f"),
    ("disc_precision", "prec", ".3f"),
    ("disc_recall", "rec", ".3f"),
    ("replaced_share", "replaced", ".3f"),
    ("learning_rate", "lr", ".2e"),
    ("gradient_norm", "|g|", ".2f"),
    ("skipped_updates", "skipped", ".0f"),
)


def format_metrics(values: Mapping[str, float]) -> str:
    """Formats metrics as console columns, `label value` each."""
    return "  ".join(
        f"{label} {values[name]:{spec}}"
        for name, label, spec in _CONSOLE_COLUMNS
        if name in values
    )


class Utilization(NamedTuple):
    """Inputs for computing the model FLOPs utilization (MFU).

    Attributes:
        peak_flops: peak FLOPs per second of all devices together.
        flops_per_step: model FLOPs of a step over the global batch, by stage of training and
            sequence length.
    """

    peak_flops: float
    flops_per_step: Mapping[tuple[int, int], float]


class TrainLog:
    """Writes every record to the console, the JSON-lines file and TensorBoard.

    Args:
        model_dir: folder of the run.
        first_step: global step at the start. Later records of an interrupted run are removed
            from the file, because these steps are repeated.
        num_train_steps, batch_size: steps of the run and sequences per step, used for rates
            and remaining time.
        seq_length: sequence length, in tokens; None if it varies.
        utilization: inputs for the MFU, if the devices' peak is known; None logs no MFU.
        facts: facts about the run for its diagnoses; None disables them.
        settings: hyperparameters, shown by TensorBoard's HParams.
        trackers: experiment trackers, which receive every record; closed at the end.
        stream: the console.
    """

    def __init__(
        self,
        model_dir: str,
        *,
        first_step: int,
        num_train_steps: int,
        batch_size: int,
        seq_length: int | None = None,
        utilization: Utilization | None = None,
        facts: RunFacts | None = None,
        settings: Mapping[str, Any] | None = None,
        trackers: Sequence[Tracker] = (),
        stream: TextIO | None = None,
    ) -> None:
        self.path = os.path.join(model_dir, LOG_FILE)
        self.tensorboard_dir = os.path.join(model_dir, TENSORBOARD_DIR)
        # TensorFlow would create a folder that is not writable for the group.
        make_folders(self.tensorboard_dir)
        self._num_train_steps = num_train_steps
        self._batch_size = batch_size
        self._seq_length, self._stage = seq_length, 0
        self._utilization = utilization
        self._bar = StepBar(num_train_steps, first_step, stream or sys.stdout)
        self._sentences_path = os.path.join(model_dir, SENTENCES_FILE)
        for path in (self.path, self._sentences_path):
            _drop_records_after(path, first_step)
        earlier = read_log(self.path) if os.path.exists(self.path) else []
        self._health = None if facts is None else HealthWatch(facts, earlier)
        self._trackers = list(trackers)
        self._file = pathlib.Path(self.path).open("a", encoding="utf-8")  # noqa: SIM115
        timed = max((r["step"] for r in earlier if r["kind"] in ("train", START)), default=0)
        if timed < first_step < num_train_steps:
            self._write({"step": first_step, "kind": START})
        with self._naming_folder():
            self._writer = tf.summary.create_file_writer(self.tensorboard_dir)
            if settings:
                # TensorBoard merges runs with the same id.
                with self._writer.as_default(step=first_step):
                    hparams.hparams(
                        plain_settings(settings), trial_id=os.path.abspath(model_dir)
                    )
        self._stop_flag = facts and facts.stop_flag
        self._first_step, self._start = first_step, time.monotonic()
        self._last_step, self._last_time = first_step, self._start
        self._stopped_seconds = 0.0  # duration of evaluations and checkpoints
        self._includes_compilation = True  # the first steps include compilation

    def set_phase(self, seq_length: int, stage: int = 0) -> None:
        """Sets the sequence length of the following steps, and their stage."""
        self._seq_length, self._stage = seq_length, stage
        self._includes_compilation = True

    def training(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the metrics and the rates (`RATES`) of the steps since the last record.

        Rates exclude evaluations and checkpoints; the time left includes them.
        """
        now = time.monotonic()
        rate = (step - self._last_step) / max(now - self._last_time, 1e-9)
        left = math.inf
        if rate:
            seconds_per_step = 1 / rate + self._stopped_seconds / (step - self._first_step)
            left = (self._num_train_steps - step) * seconds_per_step
        rates = {
            "steps_per_second": rate,
            "sequences_per_second": rate * self._batch_size,
            SECONDS_LEFT: left,
        }
        if self._seq_length is not None:
            rates["tokens_per_second"] = rates["sequences_per_second"] * self._seq_length
        phase = self._stage, self._seq_length
        flops = self._utilization and self._utilization.flops_per_step.get(phase)
        if flops:
            rates["mfu"] = rate * flops / self._utilization.peak_flops
        self._record(step, "train", {**values, **rates})
        with_compilation = " (with compilation)" if self._includes_compilation else ""
        self._includes_compilation = False
        width = len(str(self._num_train_steps))
        self._bar.print(
            f"step {step:{width}}/{self._num_train_steps}  "
            f"{rates['sequences_per_second']:.1f} seq/s{with_compilation}  "
            f"{format_seconds(left)} left  "
            f"{format_metrics({**rates, **values})}"
        )
        self._last_step, self._last_time = step, now
        self._warn_of_long_stops(now)
        self._diagnose({"step": step, "kind": "train", **values})

    def health(self) -> list[str]:
        """Returns a line for each problem that the diagnoses have found."""
        return [] if self._health is None else self._health.summary()

    def evaluation(
        self,
        step: int,
        values: Mapping[str, float],
        shown: str | None = None,
        sentences: Sequence[Sequence[InspectedToken]] = (),
    ) -> None:
        """Logs the metrics of an evaluation, and held-out sentences with replacements.

        `shown` replaces the usual console columns.
        """
        self._record(step, "eval", values)
        if sentences:
            self._write_sentences(step, sentences)
        self._bar.print(f"eval at step {step}  {shown or format_metrics(values)}")
        self._diagnose({"step": step, "kind": "eval", **values})

    def settings(self, step: int, changes: Sequence[Change]) -> None:
        """Logs the changed settings of a resumed run, if any, to the file only."""
        if changes:
            changed = {
                each.name: {"recorded": each.recorded, "given": each.given} for each in changes
            }
            self._write({"step": step, "kind": _SETTINGS, "changed": changed})

    def progress(self, step: int) -> None:
        """Shows the global step on a terminal."""
        self._bar.show(step)

    def clear_progress(self) -> None:
        """Clears the output of `progress`, so that other lines can be printed."""
        self._bar.clear()

    @contextlib.contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Excludes the time of the block (saving, evaluating) from the rates."""
        start = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - start
            self._last_time += seconds
            self._stopped_seconds += seconds

    def close(self, error: BaseException | None = None) -> None:
        """Flushes and closes the files, and ends the runs of trackers.

        `error` is the exception that ended training before its last step.
        """
        self._bar.close()
        with _naming_file(self.path):  # retries to write what could not be written
            self._file.close()
        with self._naming_folder():
            self._writer.close()
        close_trackers(self._trackers, error)

    def _warn_of_long_stops(self, now: float) -> None:
        """Warns of evaluations and checkpoints that take longer than the training."""
        training_seconds = now - self._start - self._stopped_seconds
        if self._stop_flag and self._stopped_seconds > max(training_seconds, _LONG_STOPS):
            warn_once(
                "Evaluations and checkpoints take more time than the training itself: "
                f"increase {self._stop_flag}"
            )

    def _diagnose(self, record: Mapping[str, Any]) -> None:
        if self._health is not None:
            for line in self._health.add(record):
                self._bar.print(line)

    def _record(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        # JSON has no NaN, so an empty mean is null.
        record = {name: v if math.isfinite(v) else None for name, v in values.items()}
        self._write({"step": step, "kind": kind, **record})
        finite = {f"{kind}/{name}": v for name, v in values.items() if math.isfinite(v)}
        log_to(self._trackers, step, finite)
        # NumPy arrays, because TensorFlow never frees the Python numbers that are passed to it.
        with self._naming_folder(), self._writer.as_default(step=np.array(step)):
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", np.array(value))
            self._writer.flush()

    def _write_sentences(
        self, step: int, sentences: Sequence[Sequence[InspectedToken]]
    ) -> None:
        rows = [
            [(token, original, round(probability, 3)) for token, original, probability in row]
            for row in sentences
        ]
        line = json.dumps({"step": step, "sentences": rows}, ensure_ascii=False)
        with (
            _naming_file(self._sentences_path),
            open(self._sentences_path, "a", encoding="utf-8") as file,
        ):
            file.write(line + "\n")
        with self._naming_folder(), self._writer.as_default(step=np.array(step)):
            texts = [_MARKDOWN.sub(r"\\\g<0>", render(row, color=False)) for row in sentences]
            tf.summary.text("held-out sentences: token(original), suspected?", texts)

    @contextlib.contextmanager
    def _naming_folder(self) -> Iterator[None]:
        """Names TensorBoard's folder in write errors."""
        try:
            yield
        except tf.errors.OpError as error:
            raise UserError(
                f"{self.tensorboard_dir} cannot be written: {reason_of(error)}"
            ) from error

    def _write(self, record: Mapping[str, Any]) -> None:
        with _naming_file(self.path):
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()


class SilentLog:
    """A `TrainLog` for workers other than the chief, which logs nothing."""

    def set_phase(self, seq_length: int, stage: int = 0) -> None:
        """Does nothing."""

    def training(self, step: int, values: Mapping[str, float]) -> None:
        """Does nothing."""

    def evaluation(
        self,
        step: int,
        values: Mapping[str, float],
        shown: str | None = None,
        sentences: Sequence[Sequence[InspectedToken]] = (),
    ) -> None:
        """Does nothing."""

    def settings(self, step: int, changes: Sequence[Change]) -> None:
        """Does nothing."""

    def health(self) -> list[str]:
        """Returns nothing."""
        return []

    def progress(self, step: int) -> None:
        """Does nothing."""

    def clear_progress(self) -> None:
        """Does nothing."""

    def clock_stopped(self) -> contextlib.AbstractContextManager[None]:
        """Does nothing."""
        return contextlib.nullcontext()

    def close(self, error: BaseException | None = None) -> None:
        """Does nothing."""


@contextlib.contextmanager
def _naming_file(path: str) -> Iterator[None]:
    """Names the file in write errors, which Python does not."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path} cannot be written: {reason}") from error


def _drop_records_after(file: str, step: int) -> None:
    path = pathlib.Path(file)
    if not path.exists():
        return
    # Read as bytes, because a killed run may have written part of a character.
    content = path.read_bytes()
    lines = content.split(b"\n")
    steps = [_step_of(line) for line in lines]
    kept = [line + b"\n" for line, at in zip(lines, steps, strict=True) if at <= step]
    # The last line is not reported: it is empty, or was truncated when the run was killed.
    if damaged := [i for i, at in enumerate(steps[:-1], 1) if at == math.inf]:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        warn_once(f"{path}, line {damaged[0]}{more}: removed, because it is not a log record")
    if b"".join(kept) != content:
        write_atomically(path, b"".join(kept))


def _step_of(line: bytes) -> float:
    """Returns the step of a record, or infinity for anything else.

    Changed settings count as the next step: a run that resumes before it may have others.
    """
    try:
        record = json.loads(line)
        step = record["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    if type(step) is not int:
        return math.inf
    return step + 1 if record.get("kind") == _SETTINGS else step
