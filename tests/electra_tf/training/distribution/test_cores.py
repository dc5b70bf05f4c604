"""How many parts of a batch are computed at once, and with how many threads each."""

import math
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf.training.distribution.cores import cores_of, parts_of
from electra_tf.util import cpu_cores

# Of two cores, as far as there are two.
PROGRAM = """
import os, types
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import tensorflow as tf
from electra_tf.training.distribution.cores import limit_operation_threads, share_cores
def shared(hidden_size=256, rows=(), **changes):
    config = types.SimpleNamespace(**dict(strategy="one_device", jit_compile=False) | changes)
    return share_cores(config, hidden_size, rows)
if {initialized}:
    tf.zeros([])
done = {call}
print(done, tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(("threads", "expected"), [("3", 3), ("64", 8)])
def test_cores_are_those_of_the_environment(monkeypatch, threads, expected):
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", threads)
    assert cores_of(tf.distribute.OneDeviceStrategy("/CPU:0")) == expected


def test_cores_are_those_of_the_process(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTEROP_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5}, raising=False)
    monkeypatch.setattr(cpu_cores, "cpu_limit", lambda: math.inf)
    assert cores_of(tf.distribute.OneDeviceStrategy("/CPU:0")) == 3


@pytest.mark.parametrize(
    ("num_cores", "num_tokens", "expected"),
    [(2, 4096, 2), (2, 32 * 384, 12), (8, 32 * 384, 8), (8, 16385, 16), (1, 9999, 1)],
)
def test_parts_of_long_batches_fit_into_caches(num_cores, num_tokens, expected):
    assert parts_of(num_cores, num_tokens) == expected


def run_program(call: str, initialized: bool = False, **variables: str) -> str:
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(call=call, initialized=initialized)],
        env={**environment, **variables, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.strip()


@pytest.mark.parametrize(
    ("initialized", "variables", "expected"),
    [
        (False, {}, "True 1"),
        (True, {}, "False 0"),
        (False, {"TF_NUM_INTRAOP_THREADS": "2"}, "False 0"),
    ],
)
def test_threads_are_set_unless_somebody_has_chosen(initialized, variables, expected):
    assert run_program("limit_operation_threads()", initialized, **variables) == expected


@pytest.mark.skipif(cpu_cores.num_cores() < 2, reason="needs two cores")
def test_small_models_on_a_cpu_are_trained_in_parts():
    # Again in the same process, too.
    assert run_program("shared(), shared(rows=(32, 8))") == "(2, 2) 1"
    others = 'shared(1024), shared(rows=(7,)), shared(jit_compile=True), shared(strategy="tpu")'
    assert run_program(others) == "(1, 1, 1, 1) 0"
    assert run_program("shared(), shared(1024)") == "(2, 1) 1"
    assert run_program("shared()", TF_NUM_INTRAOP_THREADS="1") == "1 0"


@pytest.mark.parametrize("kind", ["intra", "inter"])
def test_threads_of_the_caller_are_kept(kind):
    call = f"tf.config.threading.set_{kind}_op_parallelism_threads(1), shared()"
    assert run_program(call) == f"(None, 1) {int(kind == 'intra')}"


def test_cores_where_the_system_does_not_tell_those_of_a_process(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTEROP_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu_cores, "cpu_limit", lambda: math.inf)
    for count, expected in ((5, 5), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores_of(tf.distribute.OneDeviceStrategy("/CPU:0")) == expected
