"""Runs programs of the repository in the tests' own process, where TensorFlow is loaded."""

import pathlib
import runpy
import subprocess
import sys
from collections.abc import Sequence

import pytest
from absl import app
from absl.testing import flagsaver

# absl defines these once a process; inside of `run_program` they would be deleted afterwards.
app.define_help_flags()


def run_program(
    arguments: Sequence[str],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> subprocess.CompletedProcess[str]:
    """Runs a program as `python PROGRAM FLAGS` would in `folder`, with flags of its own.

    Args:
        arguments: the program's file and its flags.
        folder: working directory of the program.
        monkeypatch, capfd: the test's fixtures; output of native code is captured too.
    """
    capfd.readouterr()
    with monkeypatch.context() as patch, flagsaver.flagsaver():
        patch.chdir(folder)
        patch.setattr(sys, "argv", [*arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(arguments[0], run_name="__main__")
    output, errors = capfd.readouterr()
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), output, errors)
