"""What training says: a console line, TensorBoard scalars and a JSON-lines log."""

import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import TextIO

import tensorflow as tf

from electra_tf.util.console import format_seconds

LOG_FILE = "train_log.jsonl"
TENSORBOARD_DIR = "tensorboard"

# Name in the log, label on the console, format; in this order where they exist.
_CONSOLE_COLUMNS = (
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
    ("disc_accuracy", "acc", ".3f"),
    ("disc_precision", "prec", ".3f"),
    ("disc_recall", "rec", ".3f"),
    ("replaced_share", "replaced", ".3f"),
    ("learning_rate", "lr", ".2e"),
    ("gradient_norm", "|g|", ".2f"),
)


def format_metrics(values: Mapping[str, float]) -> str:
    """Returns the console's columns, `label value` each."""
    return "  ".join(
        f"{label} {values[name]:{spec}}"
        for name, label, spec in _CONSOLE_COLUMNS
        if name in values
    )


class TrainLog:
    """Writes every record to the console, the JSON-lines file and TensorBoard.

    Args:
        model_dir: folder of the run.
        first_step: finished steps at the start. Later records of an interrupted run
            are dropped from the file, since they are about to be repeated.
        num_train_steps, batch_size: for the rates and the time left.
        seq_length: tokens of a sequence; None where batches differ in length.
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
        stream: TextIO | None = None,
    ) -> None:
        self.path = os.path.join(model_dir, LOG_FILE)
        self.tensorboard_dir = os.path.join(model_dir, TENSORBOARD_DIR)
        os.makedirs(model_dir, exist_ok=True)
        self._num_train_steps = num_train_steps
        self._batch_size = batch_size
        self._seq_length = seq_length
        self._stream = stream or sys.stdout
        self._drop_records_after(first_step)
        self._file = pathlib.Path(self.path).open("a", encoding="utf-8")  # noqa: SIM115
        self._writer = tf.summary.create_file_writer(self.tensorboard_dir)
        self._last_step, self._last_time = first_step, time.monotonic()

    def set_length(self, seq_length: int) -> None:
        """Says how many tokens the sequences of the following steps have."""
        self._seq_length = seq_length

    def training(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the metrics of the steps since the last record."""
        now = time.monotonic()
        rate = (step - self._last_step) / max(now - self._last_time, 1e-9)
        left = (self._num_train_steps - step) / rate if rate else math.inf
        rates = {
            "steps_per_second": rate,
            "sequences_per_second": rate * self._batch_size,
            "seconds_left": left,
        }
        if self._seq_length is not None:
            rates["tokens_per_second"] = rates["sequences_per_second"] * self._seq_length
        self._record(step, "train", {**values, **rates})
        width = len(str(self._num_train_steps))
        self._say(
            f"step {step:{width}}/{self._num_train_steps}  "
            f"{rates['sequences_per_second']:.1f} seq/s  {format_seconds(left)} left  "
            f"{format_metrics(values)}"
        )
        self._last_step, self._last_time = step, now

    def evaluation(
        self, step: int, values: Mapping[str, float], shown: str | None = None
    ) -> None:
        """Logs the metrics of held-out text; `shown` takes the place of the usual columns."""
        self._record(step, "eval", values)
        self._say(f"eval at step {step}  {shown or format_metrics(values)}")

    def restart_clock(self) -> None:
        """Leaves the time since the last record out of the rates (saving, evaluating)."""
        self._last_time = time.monotonic()

    def close(self) -> None:
        """Flushes and closes the files."""
        self._file.close()
        self._writer.close()

    def _record(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        # JSON has no NaN: a metric over nothing is null.
        record = {name: v if math.isfinite(v) else None for name, v in values.items()}
        self._file.write(json.dumps({"step": step, "kind": kind, **record}) + "\n")
        self._file.flush()
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", value)
        self._writer.flush()

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)

    def _drop_records_after(self, step: int) -> None:
        path = pathlib.Path(self.path)
        if not path.exists():
            return
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if _is_record_until(line, step)]
        if len(kept) < len(lines):
            temporary = path.with_suffix(".tmp")
            temporary.write_text("".join(kept), encoding="utf-8")
            os.replace(temporary, path)


class SilentLog:
    """Takes the place of a `TrainLog` on the workers that write nothing."""

    def set_length(self, seq_length: int) -> None:
        """Leaves it to the chief."""

    def training(self, step: int, values: Mapping[str, float]) -> None:
        """Leaves it to the chief."""

    def evaluation(
        self, step: int, values: Mapping[str, float], shown: str | None = None
    ) -> None:
        """Leaves it to the chief."""

    def restart_clock(self) -> None:
        """Has no clock."""

    def close(self) -> None:
        """Has no files."""


def _is_record_until(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except (ValueError, KeyError, TypeError):
        return False  # cut off when the run was killed
