"""A killed run goes on as if nothing had happened; a comparison finds what differs.

`make soak` kills other programs too, at other moments. FAULTS_SEED chooses others.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.faults.checkpoint_writer import Run
from tests.faults.run_comparison import compare
from tests.faults.shim import compile_shim, compiler, environment

CASE = "fine-tuning, bfloat16"


@pytest.mark.skipif(compiler() is None, reason="the shim that kills is compiled, for Linux")
def test_a_killed_run_leaves_what_an_unkilled_one_leaves(tmp_path):
    figures = tmp_path / "figures.json"
    seed = os.environ.get("FAULTS_SEED", "1")
    command = [sys.executable, "-m", "tests.faults.kills", str(figures), f"--seed={seed}"]
    done = subprocess.run(
        [*command, "--kills=1", "--max_kills=1", f"--case={CASE}"],
        env=environment(compile_shim(tmp_path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert found["violations"] == []
    assert found["cases"][CASE]["kills"] >= 1


def test_what_differs_is_found(tmp_path):
    whole, other = tmp_path / "whole", tmp_path / "other"
    Run(whole).save(2)
    log = whole / "models/run/train_log.jsonl"
    log.write_text('{"step": 1, "loss": 0.5, "steps_per_second": 3}\n')
    shutil.copytree(whole, other)
    same = (other / "models/run/train_log.jsonl").read_text().replace("3}", "4}")
    (other / "models/run/train_log.jsonl").write_text(same)
    assert compare(whole, other, 0.0) == []
    (other / "models/run/train_log.jsonl").write_text(same.replace("0.5", "0.50001"))
    (other / "models/run/left.tmp").touch()
    Run(other).save(2, value=2.5)
    found = "\n".join(compare(whole, other, 1e-6))
    assert "left.tmp is left over" in found
    assert "table" in found
    assert "differs by 0.5" in found
    assert "train_log.jsonl line 0: 0.50001 instead of 0.5" in found
    assert "train_log" not in "\n".join(compare(whole, other, 1e-4))
