"""Reports of the workers to the chief at start-up, and their comparison."""

import json
import socket
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from electra_tf.util.errors import UserError

_GREETING = "electra worker "
MAX_LINE_BYTES = 1 << 20
_MAX_DIFFERENCES_SHOWN = 10


class Report(NamedTuple):
    """Report of a worker; `process` distinguishes two workers with the same index."""

    index: int
    workers: list[str]
    settings: dict[str, Any]
    process: str

    def line(self) -> str:
        """Returns the line that is sent to the chief."""
        return f"{_GREETING}{json.dumps(self._asdict())}\n"


def check_report(theirs: Report, ours: Report, taken: Collection[int]) -> None:
    """Raises UserError unless a worker belongs to this run, with an index of its own."""
    if theirs.workers != ours.workers:
        raise UserError(
            f"Worker {theirs.index} was started with --workers={','.join(theirs.workers)}, the "
            f"chief with {','.join(ours.workers)}: it must be the same for all workers"
        )
    if not 0 <= theirs.index < len(ours.workers):
        raise UserError(
            f"A worker was started with --task_index={theirs.index}, but there are "
            f"{len(ours.workers)} workers, from 0 to {len(ours.workers) - 1}"
        )
    if theirs.index == ours.index or theirs.index in taken:
        raise UserError(f"Two workers have --task_index={theirs.index}: it must be unique")
    names = sorted({*ours.settings, *theirs.settings})
    differing = [
        f"{name}: {ours.settings.get(name)!r} on worker 0, {theirs.settings.get(name)!r} on "
        f"worker {theirs.index}"
        for name in names
        if ours.settings.get(name) != theirs.settings.get(name)
    ]
    if differing:
        shown = differing[:_MAX_DIFFERENCES_SHOWN]
        if len(differing) > len(shown):
            shown.append(f"… and {len(differing) - len(shown)} more")
        raise UserError(
            "All workers must be started with the same program and settings. Different:\n  "
            + "\n  ".join(shown)
        )


def read_report(connection: socket.socket, seconds: float) -> Report | None:
    """Returns the report of a worker; None if it is malformed, or does not arrive in time.

    Raises:
        UserError: it is of another version of this program.
    """
    deadline = time.monotonic() + seconds
    received = b""
    try:
        while not received.endswith(b"\n") and len(received) < MAX_LINE_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            connection.settimeout(left)
            part = connection.recv(65536)
            if not part:
                return None
            received += part
        line = received.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not line.startswith(_GREETING):
        return None
    try:
        return Report(**json.loads(line.removeprefix(_GREETING)))
    except (ValueError, TypeError):
        raise UserError(
            "A worker was started with another version of this program: install the same one "
            "on all hosts"
        ) from None
