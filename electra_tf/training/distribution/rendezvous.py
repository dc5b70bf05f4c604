"""Rendezvous of the workers before TensorFlow starts, with a timeout.

TensorFlow itself waits silently in native code, for up to an hour. So every worker first
reports to the chief, at the address where the chief will serve TensorFlow, with its index and
settings. Once all have reported and their settings agree, all continue; if settings differ, all
stop with the same message, including workers that start a little later.
"""

import contextlib
import json
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from electra_tf.training.distribution.cluster import Cluster
from electra_tf.training.distribution.worker_reports import (
    MAX_LINE_BYTES,
    Report,
    check_report,
    read_report,
)
from electra_tf.util.errors import UserError, WorkerLostError

_GO, _STOP = "go", "stop "
_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_BETWEEN_MESSAGES = 15.0
_ANSWER_SECONDS = 5.0
# How long the chief waits for further workers to refuse.
_REFUSAL_SECONDS = 5.0


def wait_for_workers(
    cluster: Cluster,
    timeout: float,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Waits until all workers have started, and compares their settings.

    Regularly prints which workers are missing, to standard error.

    Args:
        cluster: the workers, and the index of this one.
        timeout: maximum wait, in seconds.
        settings: settings that must be the same for all workers, JSON values by name.

    Raises:
        UserError: the port of this worker is taken, two workers have the same index, or
            indices, addresses or settings do not match.
        WorkerLostError: not all workers started in time.
    """
    deadline = Deadline(cluster, timeout)
    plain = json.loads(json.dumps(dict(settings or {}), default=str))
    ours = Report(cluster.task_index, list(cluster.workers), plain, uuid.uuid4().hex)
    with _listen(cluster) as server:
        if cluster.task_index == 0 and len(cluster.workers) > 1:
            _gather(server, ours, deadline)
    if cluster.task_index > 0:
        _report(ours, deadline)


class Deadline:
    """Limits a wait, and regularly prints which workers are missing."""

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._index, self._timeout = cluster.task_index, timeout
        self._start = self._last_message = time.monotonic()

    def seconds_left(self) -> float:
        """Returns the rest of the wait, at least 0."""
        return max(0.0, self._start + self._timeout - time.monotonic())

    def check(self, missing: str) -> None:
        """Raises WorkerLostError after the deadline; otherwise prints what is missing."""
        now = time.monotonic()
        if now - self._start > self._timeout:
            raise WorkerLostError(
                f"Worker {self._index} waited {now - self._start:.0f} s for {missing}: check "
                "its output, --workers and the network, or increase --worker_timeout"
            )
        if now - self._last_message > _SECONDS_BETWEEN_MESSAGES:
            message = f"Worker {self._index} is waiting for {missing} …"
            print(message, file=sys.stderr, flush=True)
            self._last_message = now


def _listen(cluster: Cluster) -> socket.socket:
    address = cluster.workers[cluster.task_index]
    port = int(address.rpartition(":")[2])
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise UserError(
            f"Worker {cluster.task_index} cannot serve at {address}: {error}. The port is used "
            "by another program, or by another worker with this --task_index"
        ) from error


def _gather(server: socket.socket, ours: Report, deadline: Deadline) -> None:
    """The chief's side: waits for the report of every other worker, then releases them."""
    server.settimeout(_SECONDS_BETWEEN_TRIES)
    present: dict[int, socket.socket] = {}
    theirs = None
    with contextlib.ExitStack() as stack:
        other_chief = stack.enter_context(AnotherChief(ours))
        try:
            while len(present) < len(ours.workers) - 1:
                deadline.check(_describe_missing(ours, present))
                other_chief.check()
                try:
                    connection = stack.enter_context(server.accept()[0])
                except TimeoutError:
                    present = {i: c for i, c in present.items() if not _has_closed(c)}
                    continue
                seconds = min(_ANSWER_SECONDS, deadline.seconds_left())
                theirs = read_report(connection, seconds)
                if theirs is None or theirs.process == ours.process:
                    connection.close()  # not a worker: perhaps a health check
                    continue
                taken = {i for i, c in present.items() if not _has_closed(c)}
                present[-1] = connection  # it gets a refusal, too
                check_report(theirs, ours, taken)
                present[theirs.index] = present.pop(-1)
        except UserError as error:
            refusal = f"{_STOP}{json.dumps(str(error))}\n"
            _send_all(present, refusal)
            missing = set(range(1, len(ours.workers))) - set(present)
            missing.discard(theirs.index if theirs else 0)
            _refuse(server, refusal, missing, min(_REFUSAL_SECONDS, deadline.seconds_left()))
            raise
        _send_all(present, f"{_GO}\n")


def _refuse(server: socket.socket, refusal: str, missing: set[int], seconds: float) -> None:
    """Refuses workers that report later, until none is missing or the time is over."""
    until = time.monotonic() + seconds
    while missing and (left := until - time.monotonic()) > 0:
        server.settimeout(left)
        with contextlib.suppress(OSError), server.accept()[0] as connection:
            try:
                theirs = read_report(connection, until - time.monotonic())
            except UserError:  # another version
                theirs = None
            connection.sendall(refusal.encode())
            if theirs is not None:
                missing.discard(theirs.index)


def _send_all(connections: Mapping[int, socket.socket], line: str) -> None:
    for connection in connections.values():
        with contextlib.suppress(OSError):  # TensorFlow will report a lost worker
            connection.sendall(line.encode())


def _describe_missing(ours: Report, present: Collection[int]) -> str:
    return ", ".join(
        f"worker {i} ({address})"
        for i, address in enumerate(ours.workers)
        if i and i not in present
    )


class AnotherChief:
    """Detects another process that answers as the chief at the first address.

    A second worker with index 0 on another host would otherwise wait in vain: the others report
    to the host of the first address.
    """

    def __init__(self, ours: Report) -> None:
        self._ours = ours
        self._done = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._probe, daemon=True)

    def __enter__(self) -> "AnotherChief":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()

    def check(self) -> None:
        """Raises UserError if there is one."""
        if self._problem is not None:
            raise UserError(self._problem)

    def _probe(self) -> None:
        while not self._done.is_set():
            try:
                if not _greet(self._ours, self._done.is_set):
                    return  # this process has answered, by closing the connection
            except UserError as error:
                self._problem = str(error)
                return
            except OSError:
                self._done.wait(_SECONDS_BETWEEN_TRIES)


def _report(ours: Report, deadline: Deadline) -> None:
    """The other workers' side: reports to the chief until it answers."""

    def waits() -> bool:
        deadline.check("the workers named by worker 0")
        return False

    problem = ""
    while True:
        deadline.check(f"worker 0 ({ours.workers[0]}{problem})")
        try:
            if _greet(ours, waits):
                return
            problem = ""
        except OSError as error:
            # A name may become resolvable later; for other errors, the chief has not started
            # yet.
            problem = f": {error.strerror}" if isinstance(error, socket.gaierror) else ""
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _greet(ours: Report, gives_up: Callable[[], bool]) -> bool:
    """Returns whether the chief released this worker; False if it has closed the connection.

    Raises:
        UserError: the chief has refused the workers.
    """
    host, _, port = ours.workers[0].rpartition(":")
    address = host.strip("[]"), int(port)
    with socket.create_connection(address, _ANSWER_SECONDS) as chief:
        chief.sendall(ours.line().encode())
        chief.settimeout(_SECONDS_BETWEEN_TRIES)
        received = b""
        while not received.endswith(b"\n") and len(received) < MAX_LINE_BYTES:
            try:
                part = chief.recv(4096)
            except TimeoutError:
                if gives_up():
                    return False
                continue
            if not part:
                return False
            received += part
    answer = received.decode("utf-8", errors="replace").strip()
    if answer.startswith(_STOP):
        raise UserError(json.loads(answer.removeprefix(_STOP)))
    return answer == _GO


def _has_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)
