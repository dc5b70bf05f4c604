"""The programs as a shell runs them: quick answers, exit statuses, no TensorFlow."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = (
    "run_pretraining.py",
    "run_finetuning.py",
    "build_pretraining_dataset.py",
    "build_openwebtext_pretraining_dataset.py",
    "show_replaced_tokens.py",
    "flops_computation.py",
)


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_flag_errors_do_not_wait_for_tensorflow(program):
    helped = run(program, "--help")
    assert helped.returncode == 0
    assert "--max_seq_length" in helped.stdout
    wrong = run(program, "--max_seq_lenght=3")
    assert wrong.returncode == 2
    assert "Did you mean 'max_seq_length'" in wrong.stderr
    for result in (helped, wrong):
        # The import log names whatever was loaded: the two seconds are TensorFlow's.
        assert not re.search(r"\|\s+(tensorflow|keras)", result.stderr)


def test_a_user_error_is_one_message(tmp_path):
    result = run("run_pretraining.py", "--data-dir", str(tmp_path), "--model-name", "m")
    assert result.returncode == 1
    assert "error: " in result.stderr
    assert "(--vocab_file) does not exist" in result.stderr
    assert "Traceback" not in result.stderr
