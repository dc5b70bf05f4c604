"""Files of a run that reports read: its log, and what it ran on.

No TensorFlow is imported here.
"""

import codecs
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically

LOG_FILE = "train_log.jsonl"
# Held-out sentences of each evaluation, with the generator's replacements.
SENTENCES_FILE = "sentences.jsonl"
RUN_INFO_FILE = "run_info.json"
# Keys of the file.
ENVIRONMENT, DATA = "environment", "data"
_PACKAGES = ("tensorflow", "keras", "numpy")


def write_run_info(
    model_dir: str, devices: Sequence[str], data: Mapping[str, float] | None = None
) -> None:
    """Writes what a run runs on, and statistics of its data.

    Args:
        model_dir: folder of the run.
        devices: names of the devices.
        data: statistics of a sample of the records; None keeps those of the file.
    """
    path = os.path.join(model_dir, RUN_INFO_FILE)
    if data is None:
        data = read_run_info(model_dir).get(DATA, {})
    environment = {
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "CPU cores": os.cpu_count(),
        "devices": ", ".join(devices),
    }
    write_atomically(path, to_json({ENVIRONMENT: environment, DATA: dict(data)}))


def read_run_info(model_dir: str | os.PathLike) -> dict[str, Any]:
    """Returns the content of the file; empty for runs of older versions."""
    return read_json(os.path.join(model_dir, RUN_INFO_FILE))


def read_log(path: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns the records of a JSON-lines log; a truncated last line is left out.

    Raises:
        UserError: the file cannot be read, or a line before the last one is no record.
    """
    return _read_json_lines(path, ("step", "kind"))


def read_sentences(model_dir: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns `step` and `sentences` of each evaluation; empty if there are none.

    A sentence is a list of (token, original, probability of being replaced).

    Raises:
        UserError: as `read_log`.
    """
    path = os.path.join(model_dir, SENTENCES_FILE)
    return _read_json_lines(path, ("step", "sentences")) if os.path.exists(path) else []


def _read_json_lines(path: str | os.PathLike, names: Sequence[str]) -> list[dict[str, Any]]:
    try:
        content = pathlib.Path(path).read_bytes()
        # Half of a character at the end is left out: the last line is truncated.
        lines = codecs.getincrementaldecoder("utf-8")().decode(content).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not lines[-1]:
        lines.pop()
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            needed = {name: record[name] for name in names}
            records.append({**record, **needed, "step": int(record["step"])})
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            if number == len(lines):
                break  # truncated when the run was killed
            raise UserError(f"{path}, line {number}: not a record of a log") from error
    return records
