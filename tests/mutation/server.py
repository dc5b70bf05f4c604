"""Runs tests in forks of a process that has imported TensorFlow, which takes seconds.

    python -m tests.mutation.server SOCKET

Nothing of the product is imported before a fork: each imports the sources as they are then. A
client sends arguments of pytest as a JSON list and gets pytest's output; its last line is the
exit status. When the client goes away, its fork ends.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys

# What the product and its tests import, in this order.
PRELOADED = (
    "tensorflow",
    "tensorflow_text",
    "scipy.stats",
    "sklearn.metrics",
    "absl.testing.flagsaver",
    "pytest",
)


def main(path: str) -> None:
    """Serves one client at a time, until it is terminated."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # Of the tests' plugins, none is needed here, and some take a second to import.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        os.rename(f"{path}.new", path)  # whoever sees it can connect
        while True:
            connection, _ = listener.accept()
            with connection:
                _serve(connection)


def _serve(connection: socket.socket) -> None:
    arguments = json.loads(connection.makefile("r", encoding="utf-8").readline())
    child = os.fork()
    if not child:
        _run(connection, arguments)
    with contextlib.suppress(OSError):  # the fork does so too, whoever is first
        os.setpgid(child, child)
    # A process descriptor and the connection: whichever is ready first.
    descriptor = os.pidfd_open(child)
    ready, _, _ = select.select([descriptor, connection], [], [])
    os.close(descriptor)
    if connection in ready:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):  # what the tests have left behind
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):  # the client has gone
        connection.sendall(f"\n{os.waitstatus_to_exitcode(status)}\n".encode())


def _run(connection: socket.socket, arguments: list[str]) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        for descriptor in (1, 2):
            os.dup2(connection.fileno(), descriptor)
        import pytest

        from electra_tf.model import kernels

        # XLA takes longer to compile a kernel than a tiny model takes to run.
        kernels.is_fusing = lambda: False
        status = int(pytest.main(arguments))
        sys.stdout.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
