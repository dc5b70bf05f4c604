"""The compute capability of the GPUs of a run."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf.training.distribution import gpus
from electra_tf.util.errors import UserError

H100, L4 = ("H100", (9, 0)), ("L4", (8, 9))


@pytest.fixture
def with_gpus(monkeypatch):
    """Returns a function that makes TensorFlow find GPUs, given as names and capabilities."""

    def find(*found):
        details = [{"device_name": n, "compute_capability": c} for n, c in found]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: details)
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: gpu)

    return find


@pytest.fixture(autouse=True)
def no_flags(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")  # is restored
    monkeypatch.delenv("XLA_FLAGS")


def test_capability(with_gpus):
    with_gpus(L4)
    assert gpus.prepare_kernels() == 89
    with_gpus(H100, H100)
    assert gpus.prepare_kernels() == 90


def test_products_are_left_to_cublas(with_gpus, monkeypatch):
    with_gpus(H100)
    gpus.prepare_kernels()
    assert os.environ["XLA_FLAGS"] == "--xla_gpu_enable_triton_gemm=false"
    for given, expected in (
        ("--xla_dump_to=x", "--xla_dump_to=x --xla_gpu_enable_triton_gemm=false"),
        ("--xla_gpu_enable_triton_gemm=true", "--xla_gpu_enable_triton_gemm=true"),
        ("flags.txt", "flags.txt"),  # a file of flags
    ):
        monkeypatch.setenv("XLA_FLAGS", given)
        gpus.prepare_kernels()
        gpus.prepare_kernels()
        assert os.environ["XLA_FLAGS"] == expected


def test_xla_knows_its_flag():
    """TensorFlow ends the process over flags that it does not know."""
    code = (
        "import tensorflow as tf; tf.function(lambda x: x + 1, jit_compile=True)(tf.ones([]))"
    )
    environment = os.environ | {"XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "--triton_kernels needs an NVIDIA GPU, and TensorFlow finds none"),
        ([("T4", (7, 5))], r"needs compute capability 8.0 or newer, not T4 \(7.5\)"),
        ([L4, H100], r"of one compute capability, not L4 \(8.9\), H100 \(9.0\): choose some"),
    ],
)
def test_other_gpus_are_refused(with_gpus, found, message):
    with_gpus(*found)
    with pytest.raises(UserError, match=message):
        gpus.prepare_kernels()


def test_triton_must_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(UserError, match=r"--triton_kernels needs triton, .*electra-tf\[gpu\]"):
        gpus.prepare_kernels()
