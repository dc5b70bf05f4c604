"""Cores of a process within the CPU limit of its container."""

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

from electra_tf.util import cpu_cores
from electra_tf.util.cpu_cores import cpu_limit, limited_cores, num_cores


def write(folder: pathlib.Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content + "\n")


def limit(tmp_path: pathlib.Path, own_groups: str) -> float:
    (tmp_path / "own").write_text(own_groups)
    return cpu_limit(str(tmp_path), str(tmp_path / "own"))


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", math.inf), ("250000 100000", 2.5), ("", math.inf)]
)
def test_limit_of_version_2_as_a_container_sees_it(tmp_path, quota, expected):
    write(tmp_path, cpu__max=quota)
    assert limit(tmp_path, "0::/\n") == expected


def test_the_lowest_limit_of_all_parents_counts(tmp_path):
    write(tmp_path / "user.slice", cpu__max="300000 100000")
    write(tmp_path / "user.slice" / "job.scope", cpu__max="max 100000")
    write(tmp_path / "other", cpu__max="100000 100000")
    assert limit(tmp_path, "0::/user.slice/job.scope\n") == 3


@pytest.mark.parametrize(("quota", "expected"), [("-1", math.inf), ("50000", 0.5)])
@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
def test_limit_of_version_1(tmp_path, mount, quota, expected):
    # A container's files are in the mount itself, though its path is that of the host.
    files = {"cpu__cfs_quota_us": quota, "cpu__cfs_period_us": "100000"}
    write(tmp_path / mount, **files)
    write(tmp_path / "cpuset", cpu__cfs_quota_us="1", cpu__cfs_period_us="100000")
    groups = "5:cpuset:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/1f\n0::/\n"
    assert limit(tmp_path, groups) == expected


def test_there_is_no_limit_without_control_groups(tmp_path):
    assert cpu_limit(str(tmp_path), str(tmp_path / "missing")) == math.inf
    assert limit(tmp_path, "0::/gone\n3:cpu:/gone\n") == math.inf


@pytest.mark.parametrize(
    ("quota", "expected"), [(0.5, 1), (2, 2), (2.5, 3), (3.5, None), (4, None), (9, None)]
)
def test_a_limit_counts_if_it_leaves_fewer_cores_than_there_are(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 5}, raising=False)
    monkeypatch.setattr(cpu_cores, "cpu_limit", lambda: quota)
    assert limited_cores() == expected
    assert num_cores() == (expected or 4)


PROGRAM = """
import json, sys
from electra_tf.util import cpu_cores
cpu_cores.cpu_limit = lambda: 2
cpu_cores._scheduled_cores = lambda: 16
from electra_tf.util.tensorflow_import import import_tensorflow
if "started" in sys.argv:
    import tensorflow as tf
    tf.zeros([])
import_tensorflow()
import tensorflow as tf
from electra_tf.training.distribution.cores import limit_operation_threads
threading = tf.config.threading
def threads():
    return [
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    ]
print(json.dumps([threads(), limit_operation_threads(2), threads()]))
"""


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ([], {}, [[2, 2], True, [1, 2]]),
        ([], {"TF_NUM_INTEROP_THREADS": "9"}, [[0, 0], False, [0, 0]]),
        (["started"], {}, [[0, 0], False, [0, 0]]),
    ],
)
def test_tensorflow_gets_the_threads_of_the_limit(arguments, variables, expected):
    names = (cpu_cores.INTRAOP_THREADS, cpu_cores.INTEROP_THREADS)
    environment = {name: value for name, value in os.environ.items() if name not in names}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**environment, **variables, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == expected
