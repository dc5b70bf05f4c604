"""Starts programs in forks of a process that has imported TensorFlow, which takes seconds.

The fork is like a process of its own: nothing of TensorFlow runs before it. Kernels are not
fused by XLA there, whose compilation takes longer than a tiny run; tests of one process train
with them.
"""

import ctypes
import multiprocessing
import os
import pathlib
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.preloaded"])


class ForkedProgram:
    """A running program, with what tests need of `subprocess.Popen`.

    Attributes:
        returncode: exit status, negative for a signal; None while it runs.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        network: str | None = None,
    ) -> None:
        """Starts it.

        Args:
            program: file, relative to the root of the repository.
            arguments: its flags.
            environment: all variables that it gets; those that Python or TensorFlow read when
                they are imported have no effect.
            network: path of the network namespace to run it in; None is that of the tests.
        """
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [pathlib.Path(self._folder.name, name) for name in ("out", "err")]
        self._process = _context.Process(
            target=_run,
            args=(program, [*arguments], dict(environment), self._outputs, network),
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Returns the exit status, None while it runs."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for the end; returns standard output and error.

        Raises:
            TimeoutError: it still runs after so many seconds.
        """
        self._process.join(timeout)
        if self.poll() is None:
            raise TimeoutError(f"Still running after {timeout} s")
        output, errors = (path.read_text() if path.exists() else "" for path in self._outputs)
        return output, errors


def _run(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    outputs: Sequence[pathlib.Path],
    network: str | None,
) -> None:
    for path, descriptor in zip(outputs, (1, 2), strict=True):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    if network is not None:
        with open(network) as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"setns {network}")
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.argv = [program, *arguments]
    from electra_tf.model import kernels

    kernels.is_fusing = lambda: False  # in every thread
    runpy.run_path(program, run_name="__main__")
