"""Variants that are measured by turns, each in a process of its own.

A child reads lines from standard input and answers each with a line of JSON, so that what
several variants do is asked of one at a time and the noise of the machine hits all alike.
"""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from electra_tf.util.cpu_cores import num_cores
from electra_tf.util.errors import UserError

NUM_CORES = num_cores()
NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}


class Child:
    """A process that answers lines; it sees no GPU unless `use_gpu` is set."""

    def __init__(self, name: str, command: Sequence[str], *, use_gpu: bool = False) -> None:
        self.name = name
        # TensorFlow would take the whole memory of a GPU at once.
        gpu = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if use_gpu else NO_GPU
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **gpu},
        )

    def ask(self, question: str) -> Any:
        """Sends a line and returns the answer; raises as `read`."""
        with contextlib.suppress(BrokenPipeError):  # the missing answer tells
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        return self.read()

    def read(self) -> Any:
        """Returns what the child says next.

        Raises:
            UserError: the process has ended.
        """
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise UserError(f"{self.name} ended with status {status}; it says why above")
        return json.loads(line)

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()


def our_command(module: str, *arguments: str) -> list[str]:
    """Returns the command line of a child that runs `serve(*arguments)` of a benchmark."""
    code = f"import sys; from benchmarks import {module} as m; m.serve(*sys.argv[1:])"
    return [sys.executable, "-c", code, *arguments]


def describe_machine(torch_python: str | None) -> str:
    """Returns processor, cores and versions, in one line; raises as `torch_versions`."""
    versions = {"tensorflow": importlib.metadata.version("tensorflow")}
    versions |= torch_versions(torch_python) if torch_python else {}
    described = [f"{name} {version}" for name, version in versions.items()]
    return ", ".join([_cpu_model(), f"{NUM_CORES} cores", *described])


def torch_versions(torch_python: str) -> dict[str, str]:
    """Returns the versions of torch and transformers there.

    Raises:
        UserError: the path is not a Python that has both.
    """
    code = (
        "import importlib.metadata, json; names = 'torch', 'transformers'; "
        "print(json.dumps({name: importlib.metadata.version(name) for name in names}))"
    )
    where = f"--torch_python={torch_python}"
    try:
        result = subprocess.run([torch_python, "-c", code], capture_output=True, text=True)
        return json.loads(result.stdout)
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}") from error
    except ValueError:
        said = result.stderr.strip().rpartition("\n")[2]
        raise UserError(f"{where} is no Python with torch and transformers. {said}") from None


def busy_seconds() -> float:
    """Returns the seconds that all cores together have worked, or been taken away."""
    first_line = pathlib.Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(count) for count in first_line.split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return sum((user, nice, system, irq, softirq, steal)) / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float], decimals: int) -> str:
    """Returns "median (lowest – highest)"."""
    center, low, high = statistics.median(values), min(values), max(values)
    return f"{center:.{decimals}f} ({low:.{decimals}f} – {high:.{decimals}f})"


def _cpu_model() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "Unknown CPU"
