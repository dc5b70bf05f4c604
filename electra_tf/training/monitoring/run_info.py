"""The files of a run that reports read: its log, and the description of its environment.

No TensorFlow is imported here.
"""

import codecs
import importlib.metadata
import json
import math
import os
import pathlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from electra_tf.util.console import warn_once
from electra_tf.util.cpu_cores import num_cores
from electra_tf.util.errors import UserError, not_utf8
from electra_tf.util.files import read_json, read_object, to_json, write_atomically

LOG_FILE = "train_log.jsonl"
# Held-out sentences of each evaluation, with the generator's replacements.
SENTENCES_FILE = "sentences.jsonl"
RUN_INFO_FILE = "run_info.json"
# Keys of the file.
ENVIRONMENT, DATA_STATISTICS = "environment", "data"
# Key in the environment: the number of parts of a batch, which dropout depends on.
PARTS = "parts of a batch"
# Statistics of the data.
STATISTICS = ("unigram_accuracy", "unknown_share")
# Rates of training, logged beside the metrics; tokens include padding.
SECONDS_LEFT = "seconds_left"
RATES = ("steps_per_second", "sequences_per_second", "tokens_per_second", SECONDS_LEFT, "mfu")
# Kind of the record of a start that resumes after the last training record.
START = "start"
# Kinds of records whose values are metrics.
METRIC_KINDS = ("train", "eval")
_PACKAGES = ("tensorflow", "keras", "numpy")


def write_run_info(
    model_dir: str,
    devices: Sequence[str],
    data: Mapping[str, float] | None = None,
    num_parts: int | None = None,
) -> None:
    """Writes the environment of a run, and statistics of its data.

    Args:
        model_dir: folder of the run.
        devices: names of the devices.
        data: statistics of a sample of the records; None keeps those of the file.
        num_parts: number of parts that a batch is divided into; None does not record it.
    """
    path = os.path.join(model_dir, RUN_INFO_FILE)
    if data is None:
        data = read_run_info(model_dir).get(DATA_STATISTICS, {})
    environment = {
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "CPU cores": num_cores(),
        "devices": ", ".join(devices),
        **({} if num_parts is None else {PARTS: num_parts}),
    }
    write_atomically(path, to_json({ENVIRONMENT: environment, DATA_STATISTICS: dict(data)}))


def read_run_info(model_dir: str | os.PathLike) -> dict[str, Any]:
    """Returns the content of the file; empty for runs of older versions.

    Raises:
        UserError: it is damaged.
    """
    path = os.path.join(model_dir, RUN_INFO_FILE)
    try:
        content = {
            **read_json(path),
            **{n: read_object(path, n) for n in (ENVIRONMENT, DATA_STATISTICS)},
        }
        data = {name: v for name, v in content[DATA_STATISTICS].items() if name in STATISTICS}
        for name, value in data.items():
            if not is_number(value):
                raise UserError(f"{path}: {name} must be a number, not {value!r:.80}")
    except UserError as error:
        raise UserError(f"{error}. Remove the file: a resumed run recreates it") from error
    return {**content, DATA_STATISTICS: data}


def describe_other_parts(model_dir: str, num_parts: int) -> list[str]:
    """Returns a line if the last start of a run divided a batch into another number of parts.

    This happens on a machine with another number of cores. Older versions do not record it.
    """
    before = read_run_info(model_dir).get(ENVIRONMENT, {}).get(PARTS)
    if before in (None, num_parts):
        return []
    return [
        f"Parts:   a batch is divided into {num_parts} parts, previously into {before}: "
        "dropout masks differ from those of an uninterrupted run"
    ]


def is_number(value: Any) -> bool:
    """Returns whether a value of a JSON file is a finite number, and not a boolean."""
    is_plain = isinstance(value, int | float) and not isinstance(value, bool)
    return is_plain and math.isfinite(value)


def read_log(path: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns the records of a JSON-lines log.

    A truncated last line is ignored, with a warning: the run was killed, or is writing it.

    Raises:
        UserError: the file cannot be read, or a line is not a record.
    """
    return list(_read_json_lines(path, _check_record))


def training_seconds(records: Sequence[Mapping[str, Any]]) -> float:
    """Returns the duration of the training steps of a log, over all starts of the run.

    It excludes evaluations and checkpoints, like the rates of the records, and steps before the
    first record, such as those of the authors' code. Steps that a start trained after its last
    record are assumed to have taken as long as the others.
    """
    seconds, timed_steps, first, previous = 0.0, 0, 0, 0
    for record in records:
        rate = record.get("steps_per_second")
        if record["kind"] == START and not timed_steps:
            first = record["step"]
        if record["kind"] == "train" and rate:
            seconds += (record["step"] - previous) / rate
            timed_steps += record["step"] - previous
        if record["kind"] in ("train", START):
            previous = record["step"]
    return seconds * (previous - first) / timed_steps if timed_steps else 0.0


def read_sentences(model_dir: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns `step` and `sentences` of each evaluation; empty if there are none.

    A sentence is a list of (token, original, probability of being replaced).

    Raises:
        UserError: as `read_log`.
    """
    path = os.path.join(model_dir, SENTENCES_FILE)
    if not os.path.exists(path):
        return []
    return list(_read_json_lines(path, _check_sentences))


def _read_json_lines(
    path: str | os.PathLike, check: Callable[[Mapping[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Yields the objects in a file.

    Args:
        path: the file.
        check: raises KeyError, TypeError or ValueError for an invalid record.
    """
    try:
        content = pathlib.Path(path).read_bytes()
        # Ignores part of a character at the end, where the last line is truncated.
        lines = codecs.getincrementaldecoder("utf-8")().decode(content).split("\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {not_utf8(error)}") from error
    last = len(lines)  # a line without a newline, usually empty
    for number, line in enumerate(lines, 1):
        if number == last and not _is_json(line):
            if line:
                warn_once(
                    f"{path}: the last line is incomplete and ignored: the run was killed "
                    "while writing it, or is still writing it"
                )
            return
        try:
            record = json.loads(line)
            check(record)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path}, line {number}: not a log record ({error!r:.80}). Remove the line"
            ) from error
        yield record


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _check_record(record: Mapping[str, Any]) -> None:
    """Raises an error unless it is a record of `TrainLog`."""
    _check_step(record)
    if record["kind"] not in METRIC_KINDS:
        return
    for name, value in record.items():
        if name not in ("step", "kind") and value is not None and not is_number(value):
            raise ValueError(f"{name} is {value!r:.40}")


def _check_sentences(record: Mapping[str, Any]) -> None:
    """Raises an error unless it has sentences of (token, original, probability)."""
    _check_step(record)
    for sentence in record["sentences"]:
        for token, original, probability in sentence:
            if not (isinstance(token, str) and isinstance(original, str)):
                raise TypeError("a token is not a string")
            if not is_number(probability):
                raise TypeError(f"a probability is {probability!r:.40}")


def _check_step(record: Mapping[str, Any]) -> None:
    if type(record["step"]) is not int:
        raise TypeError(f"step is {record['step']!r:.40}")
