"""The training log: rates and what is derived from them."""

import io
import json
import pathlib

import pytest

from electra_tf.training.log import TrainLog, Utilization


def read(log: TrainLog) -> list[dict]:
    return [json.loads(line) for line in pathlib.Path(log.path).read_text().splitlines()]


def test_the_mfu_follows_the_sequence_length(tmp_path):
    console = io.StringIO()
    log = TrainLog(
        str(tmp_path),
        first_step=0,
        num_train_steps=100,
        batch_size=8,
        seq_length=16,
        utilization=Utilization(1e9, {16: 1e6, 32: 2.5e6}),
        stream=console,
    )
    log.training(10, {"loss": 1.0})
    log.set_length(32)
    log.training(20, {"loss": 1.0})
    log.set_length(64)  # unknown
    log.training(30, {"loss": 1.0})
    log.close()
    first, second, third = read(log)
    assert first["mfu"] == pytest.approx(first["steps_per_second"] * 1e6 / 1e9)
    assert second["mfu"] == pytest.approx(second["steps_per_second"] * 2.5e6 / 1e9)
    assert "mfu" not in third
    assert console.getvalue().count("MFU") == 2
