"""benchmarks.gpu_kernels, in Triton's interpreter; needs a Python with PyTorch and Triton.

python -m venv torch && torch/bin/pip install torch triton
ELECTRA_TORCH_PYTHON=$PWD/torch/bin/python python -m pytest tests/benchmarks/test_gpu_kernels.py
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TORCH_PYTHON = os.environ.get("ELECTRA_TORCH_PYTHON")


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [TORCH_PYTHON, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )


@pytest.mark.skipif(not TORCH_PYTHON, reason="set ELECTRA_TORCH_PYTHON, as said above")
def test_kernels_are_checked():
    if run("-c", "import triton").returncode:
        pytest.skip("that Python has no Triton")
    shapes = "--shapes=2:40:1,1:150:2"
    ran = run("-m", "benchmarks.gpu_kernels", "--device=cpu", shapes, "--num_tiles=0")
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if "differs from float64 by" in line]
    assert len(lines) == 22
    assert lines[0].startswith("attention_forward, 2 x 40 x 1: ")
