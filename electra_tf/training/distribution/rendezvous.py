"""Rendezvous of the workers before TensorFlow starts, with a timeout.

TensorFlow itself waits silently in native code, for up to an hour. So every worker first
reports to the chief, at the address where the chief will serve TensorFlow, and continues
once the chief has heard from all of them.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Callable

from electra_tf.training.distribution.cluster import Cluster
from electra_tf.util.errors import UserError, WorkerLostError

_GREETING, _GO = "electra worker", b"go\n"
_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_BETWEEN_MESSAGES = 15.0
_ANSWER_SECONDS = 5.0


def _print_error(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def wait_for_workers(
    cluster: Cluster, timeout: float, print_fn: Callable[[str], None] = _print_error
) -> None:
    """Waits until all workers have started.

    Args:
        cluster: the workers, and the index of this one.
        timeout: maximum wait, in seconds.
        print_fn: regularly prints which workers are missing.

    Raises:
        UserError: the port of this worker is taken, or two workers have the same index.
        WorkerLostError: not all workers started in time.
    """
    patience = Deadline(cluster, timeout, print_fn)
    with _listen(cluster) as server:
        if cluster.task_index == 0:
            _gather(server, cluster, patience)
    if cluster.task_index > 0:
        _report(cluster, patience)


class Deadline:
    """Limits a wait, and regularly prints which workers are missing."""

    def __init__(
        self, cluster: Cluster, timeout: float, print_fn: Callable[[str], None]
    ) -> None:
        self._index, self._timeout, self._print_fn = cluster.task_index, timeout, print_fn
        self._start = self._last_message = time.monotonic()

    def check(self, missing: str) -> None:
        now = time.monotonic()
        if now - self._start > self._timeout:
            raise WorkerLostError(
                f"Worker {self._index} waited {now - self._start:.0f} s for {missing}: check "
                "its output, --workers and the network, or increase --worker_timeout"
            )
        if now - self._last_message > _SECONDS_BETWEEN_MESSAGES:
            self._print_fn(f"Worker {self._index} is waiting for {missing} …")
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


def _gather(server: socket.socket, cluster: Cluster, patience: Deadline) -> None:
    """The chief's side: waits for a greeting of every other worker, then releases them."""
    server.settimeout(_SECONDS_BETWEEN_TRIES)
    present: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        while len(present) < len(cluster.workers) - 1:
            missing = [
                f"worker {i} ({address})"
                for i, address in enumerate(cluster.workers)
                if i and i not in present
            ]
            patience.check(", ".join(missing))
            try:
                connection = stack.enter_context(server.accept()[0])
            except TimeoutError:
                present = {i: c for i, c in present.items() if not _has_closed(c)}
                continue
            index = _read_greeting(connection, cluster)
            if index is None:
                continue  # not a worker; perhaps a health check
            if index in present and not _has_closed(present[index]):
                raise UserError(f"Two workers have --task_index={index}: it must be unique")
            present[index] = connection
        for connection in present.values():
            connection.sendall(_GO)


def _report(cluster: Cluster, patience: Deadline) -> None:
    """The other workers' side: greets the chief until it answers."""
    while True:
        patience.check(f"worker 0 ({cluster.workers[0]})")
        with contextlib.suppress(OSError):  # the chief has not started yet
            if _greet(cluster, patience):
                return
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _greet(cluster: Cluster, patience: Deadline) -> bool:
    """Returns whether the chief released this worker; False if the chief has exited."""
    host, _, port = cluster.workers[0].rpartition(":")
    address = host.strip("[]"), int(port)
    with socket.create_connection(address, _ANSWER_SECONDS) as chief:
        words = f"{_GREETING} {cluster.task_index} of {','.join(cluster.workers)}\n"
        chief.sendall(words.encode())
        chief.settimeout(_SECONDS_BETWEEN_TRIES)
        while True:
            try:
                return chief.recv(len(_GO)) == _GO
            except TimeoutError:
                patience.check("the workers named by worker 0")


def _read_greeting(connection: socket.socket, cluster: Cluster) -> int | None:
    connection.settimeout(_ANSWER_SECONDS)
    try:
        line = connection.makefile(encoding="utf-8").readline()
    except (OSError, UnicodeDecodeError):
        return None
    words = line.removeprefix(_GREETING).split()
    if not line.startswith(_GREETING) or len(words) != 3 or not words[0].isdecimal():
        return None
    if words[2] != ",".join(cluster.workers):
        raise UserError(
            f"Worker {words[0]} was started with --workers={words[2]}, the chief with "
            f"{','.join(cluster.workers)}: it must be the same for all workers"
        )
    return int(words[0])


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
