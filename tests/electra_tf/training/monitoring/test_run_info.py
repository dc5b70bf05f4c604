"""What a run records of its machine, and how long it trained."""

import os

import pytest

from electra_tf.training.monitoring.run_info import (
    describe_other_parts,
    training_seconds,
    write_run_info,
)


def test_another_number_of_parts_of_a_batch_is_told(tmp_path):
    folder = os.fspath(tmp_path)
    assert describe_other_parts(folder, 4) == []  # a new run
    write_run_info(folder, [], {})
    assert describe_other_parts(folder, 4) == []  # of an older version
    write_run_info(folder, [], {}, num_parts=2)
    assert describe_other_parts(folder, 2) == []
    (line,) = describe_other_parts(folder, 4)
    assert "a batch is divided into 4 parts, previously into 2" in line


def trained(step: int, rate: float) -> dict:
    return {"step": step, "kind": "train", "steps_per_second": rate}


def resumed(step: int) -> dict:
    return {"step": step, "kind": "start"}


@pytest.mark.parametrize(
    ("records", "seconds"),
    [
        ([], 0.0),
        ([trained(10, 2.0), trained(20, 1.0)], 15.0),
        # The last 10 steps took 100 seconds, of compilation; 90 before have no record.
        ([trained(100, 2.0), resumed(190), trained(200, 0.1)], 150.0 * 200 / 110),
        ([trained(100, 2.0), resumed(190)], 95.0),
        # Of a run that the authors' code has begun.
        ([resumed(1000), trained(1010, 2.0)], 5.0),
    ],
)
def test_the_time_of_a_training_is_that_of_its_steps(records, seconds):
    assert training_seconds(records) == pytest.approx(seconds)
