"""Runs programs of the repository in the tests' own process, where TensorFlow is loaded."""

import contextlib
import functools
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from absl import app, flags
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
        arguments: the program's file, or `-m` and its module, and its flags.
        folder: working directory of the program.
        monkeypatch, capfd: the test's fixtures; output of native code is captured too.
    """
    capfd.readouterr()
    is_module = arguments[0] == "-m"
    run = functools.partial(runpy.run_module, alter_sys=True) if is_module else runpy.run_path
    with monkeypatch.context() as patch, without_benchmarks_flags(), flagsaver.flagsaver():
        patch.chdir(folder)
        patch.setattr(sys, "argv", [*arguments[is_module:]])
        with pytest.raises(SystemExit) as ended:
            run(arguments[is_module], run_name="__main__")
    output, errors = capfd.readouterr()
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), output, errors)


@contextlib.contextmanager
def without_benchmarks_flags() -> Iterator[None]:
    """Puts aside the flags of imported benchmarks, whose names programs use too."""
    by_module = flags.FLAGS.flags_by_module_dict()
    taken = [
        (module, flag)
        for module, defined in by_module.items()
        if module.startswith("benchmarks")
        for flag in defined
    ]
    for _, flag in taken:
        delattr(flags.FLAGS, flag.name)
    try:
        yield
    finally:
        for module, flag in taken:
            flags.DEFINE_flag(flag, module_name=module)
