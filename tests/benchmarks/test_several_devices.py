"""The benchmark of several devices: its child and its table."""

import json
import os

from benchmarks.several_devices import (
    ALL_REDUCE,
    DEVICES,
    HALVES,
    ONE,
    PROCESSES,
    STEP,
    serve,
    table,
)
from electra_tf.config.pretraining import PretrainingConfig
from tests.conftest import tiny_settings


def test_a_child_steps_and_reduces(tiny_data, tmp_path, monkeypatch, capsys):
    # Its random rows need more words.
    settings = tiny_settings(tiny_data, tmp_path) | {"vocab_size": 1100}
    config = PretrainingConfig.create(**settings, strategy="mirrored", num_virtual_cpus=2)
    monkeypatch.setattr("sys.stdin", [f"{STEP} 1\n", f"{ALL_REDUCE} 2\n"])
    serve(config.to_json(), json.dumps([*os.sched_getaffinity(0)]))
    seconds = [float(line) for line in capsys.readouterr().out.splitlines()]
    assert len(seconds) == 2
    assert min(seconds) > 0


def test_the_rest_is_what_is_not_computation():
    step = {ONE: [2.0], DEVICES: [3.0], PROCESSES: [2.5], HALVES: [2.0, 1.0, 1.5]}
    seconds = {(name, STEP): values for name, values in step.items()}
    seconds |= {(DEVICES, ALL_REDUCE): [0.25], (PROCESSES, ALL_REDUCE): [0.75]}
    rows = table(seconds).splitlines()
    assert rows[2].split("|")[1:3] == [" one device ", " 2.000 "]
    assert rows[4].replace(" ", "") == "|twoprocesses|2.500|1.25|1.500|1.000|0.750|"
