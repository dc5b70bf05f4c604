"""Says which workers are awaited while TensorFlow waits for them, and gives up in time."""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

from electra_tf.cluster import Cluster
from electra_tf.errors import WorkerLostError

_CONNECT_SECONDS = 2.0
_SECONDS_BETWEEN_MESSAGES = 15.0


@contextlib.contextmanager
def waiting_for_workers(cluster: Cluster, timeout: float) -> Iterator[None]:
    """Names the missing workers from time to time; ends the process after `timeout` seconds.

    TensorFlow waits in native code, where no exception reaches it: hence the exit.
    """
    arrived = threading.Event()
    console = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)

    def watch() -> None:
        start = time.monotonic()
        while not arrived.wait(min(_SECONDS_BETWEEN_MESSAGES, timeout)):
            missing = [address for address in _others(cluster) if not _answers(address)]
            waited = time.monotonic() - start
            if waited >= timeout and not arrived.is_set():
                names = ", ".join(missing) or "the other workers, which do answer"
                print(
                    f"error: Worker {cluster.task_index} waited {waited:.0f} s for {names}: "
                    "look at their output, at --workers and at the network, or raise "
                    "--worker_timeout",
                    file=console,
                )
                os._exit(WorkerLostError.exit_status)
            print(f"Waiting for {', '.join(missing) or 'the other workers'} …", file=console)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        arrived.set()
        thread.join()
        console.close()


def _others(cluster: Cluster) -> list[str]:
    return [a for i, a in enumerate(cluster.workers) if i != cluster.task_index]


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return True
    except OSError:
        return False
