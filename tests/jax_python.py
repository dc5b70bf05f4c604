"""A Python with jax, for tests of what runs where TensorFlow is not.

python -m venv jax && jax/bin/pip install jax numpy
ELECTRA_JAX_PYTHON=$PWD/jax/bin/python python -m pytest tests/benchmarks
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
JAX_PYTHON = os.environ.get("ELECTRA_JAX_PYTHON")
needs_jax = pytest.mark.skipif(
    not JAX_PYTHON,
    reason="set ELECTRA_JAX_PYTHON to the Python of an environment with jax: python -m venv "
    "jax && jax/bin/pip install jax numpy",
)


def run_jax(
    *arguments: str, cwd: pathlib.Path = ROOT, succeeds: bool = True
) -> subprocess.CompletedProcess:
    """Runs that Python, on the CPU."""
    ran = subprocess.run(
        [JAX_PYTHON, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
    )
    assert (ran.returncode == 0) == succeeds, ran.stderr
    return ran
