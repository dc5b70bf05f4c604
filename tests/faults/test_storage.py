"""Full disks, errors of the disk and power cuts, a few of them in everything that is written.

`make soak` tries all. FAULTS_SEED chooses others; a failure names its seed.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.faults.shim import compile_shim, compiler, environment

TRIALS_OF_A_WRITER = 10
pytestmark = pytest.mark.skipif(
    compiler() is None, reason="needs gcc and Linux's /proc: the shim of the disk is compiled"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> pathlib.Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


def run_trials(library: pathlib.Path, folder: pathlib.Path, *flags: str) -> dict[str, Any]:
    figures = folder / "figures.json"
    seed = os.environ.get("FAULTS_SEED", "1")
    command = [sys.executable, "-m", "tests.faults.storage", str(figures), f"--seed={seed}"]
    done = subprocess.run(
        [*command, *flags], env=environment(library), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    assert figures.exists(), done.stderr
    return json.loads(figures.read_text())


def test_every_fault_leaves_the_old_or_the_new(library, tmp_path):
    figures = run_trials(library, tmp_path, f"--limit={TRIALS_OF_A_WRITER}", "--trials=1")
    assert [line for each in figures.values() for line in each["violations"]] == []
    assert len(figures) == 14
    for each in figures.values():
        assert each["errors_tried"] == TRIALS_OF_A_WRITER
        assert each["outcomes"]["new"]
        assert len(each["outcomes"]) > 1


def test_careless_writers_are_found(library, tmp_path):
    (figures,) = run_trials(library, tmp_path, "--writer=careless").values()
    found = "\n".join(figures["violations"])
    assert "names without data: reading: AssertionError" in found
    assert "what was flushed: found: none" in found
    assert "careless, seed " in found
