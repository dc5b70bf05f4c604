"""Fine-tuning on several devices and processes gives what one device gives."""

import dataclasses
import json
import pathlib
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.step import TrainingSteps
from electra_tf.util.errors import PreemptedError, WorkerLostError
from finetune import run
from finetune.config.finetuning import FinetuningConfig
from tests import processes
from tests.electra_tf.test_distributed_pretraining import (
    MIRRORED,
    NO_DROPOUT,
    assert_equal_records,
)
from tests.finetune.test_run import build, quiet, weights_of


def settings(data_dir: pathlib.Path, folder: pathlib.Path, **overrides) -> dict:
    """A task whose head has no dropout; the last batch of dev is not full."""
    encoder = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
        **NO_DROPOUT,
    }
    return {
        "data_dir": str(data_dir),
        "model_name": "m",
        "task_names": ("chunk",),
        "model_hparam_overrides": encoder,
        "model_dir": str(folder / "model"),
        "results_dir": str(folder / "results"),
        "results_txt": str(folder / "results" / "results.txt"),
        "results_pkl": str(folder / "results" / "results.pkl"),
        "preprocessed_data_dir": str(folder / "features"),
        "max_seq_length": 16,
        "length_buckets": (8, 16),
        "train_batch_size": 8,
        "eval_batch_size": 6,
        "learning_rate": 1e-3,
        "layerwise_lr_decay": 1.0,
        "num_train_epochs": 2.5,
        "iterations_per_loop": 5,
        "log_steps": 5,
        "eval_steps": 10,
        "keep_best": True,
        **overrides,
    }


@pytest.fixture(scope="module")
def one_device(finetuning_data, tmp_path_factory) -> pathlib.Path:
    """The folder of a run on one device."""
    folder = tmp_path_factory.mktemp("one_device")
    run.run(FinetuningConfig.create(**settings(finetuning_data, folder)), quiet)
    return folder


def assert_equal_runs(actual: pathlib.Path, expected: pathlib.Path) -> None:
    ours, theirs = (weights_of(str(folder / "model_1")) for folder in (actual, expected))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, atol=1e-5, err_msg=name)
    logs = [
        [json.loads(line) for line in (folder / "model_1" / "train_log.jsonl").open()]
        for folder in (actual, expected)
    ]
    for record, wanted in zip(*logs, strict=True):
        assert_equal_records(record, wanted)
    results = [
        json.loads((folder / "results" / "chunk_results.json").read_text())["summary"]
        for folder in (actual, expected)
    ]
    assert results[0].keys() == results[1].keys() == {"chunk/dev"}


def test_two_devices_equal_one(finetuning_data, tmp_path, one_device):
    config = FinetuningConfig.create(**settings(finetuning_data, tmp_path), **MIRRORED)
    run.run(config, quiet)
    assert_equal_runs(tmp_path, one_device)


def test_two_processes_equal_one(finetuning_data, tmp_path, one_device):
    ends = processes.finish(
        processes.start_workers("run_finetuning.py", settings(finetuning_data, tmp_path))
    )
    assert [end[0] for end in ends] == [0, 0], ends
    assert_equal_runs(tmp_path, one_device)
    assert "chunk/dev: " in ends[0][1]
    assert ends[1][1] == ""


def test_workers_say_where_an_error_of_the_chief_is_told(finetuning_data, tmp_path):
    (tmp_path / "file").touch()
    given = settings(finetuning_data, tmp_path, results_dir=str(tmp_path / "file" / "results"))
    chief, other = processes.finish(processes.start_workers("run_finetuning.py", given))
    assert (chief[0], other[0]) == (1, WorkerLostError.exit_status), (chief, other)
    assert "cannot be written" in chief[2]
    assert re.search(r"See the output of worker 0 \(127\.0\.0\.1:\d+, the chief\)", other[2])


def test_a_preempted_run_equals_an_uninterrupted_one(
    finetuning_data, tmp_path, one_device, monkeypatch
):
    config = FinetuningConfig.create(**settings(finetuning_data, tmp_path), **MIRRORED)
    run_steps = TrainingSteps.run

    def run_and_signal(self, *arguments):
        run_steps(self, *arguments)
        signal.raise_signal(signal.SIGUSR1)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingSteps, "run", run_and_signal)
        with pytest.raises(PreemptedError, match=r"step 5; saved .*ckpt-5"):
            run.run(config, quiet)
    said = []
    run.run(config, said.append)
    assert any("Resuming from" in line and line.endswith("step 5.") for line in said)
    assert_equal_runs(tmp_path, one_device)


def test_predictions_keep_the_order_of_the_rows(finetuning_data, tmp_path, one_device):
    """Twenty-one rows, in batches of six that are padded to two lengths."""
    outputs = []
    for strategy in ({}, MIRRORED):
        trainer, (task,), data = build(
            FinetuningConfig.create(**settings(finetuning_data, tmp_path), **strategy)
        )
        trainer.restore(str(one_device / "model_1"))
        outputs.append(trainer.predict(task, data.get(task, "dev")))
    assert len(outputs[0]) == 21
    for one, two in zip(*outputs, strict=True):
        assert one.keys() == two.keys()
        for name, value in one.items():
            np.testing.assert_allclose(two[name], value, atol=2e-6, err_msg=name)


def test_the_step_compiles_as_a_tpu_needs_it(finetuning_data, tmp_path):
    """Every operation has to be known to XLA, and every shape static, as on a TPU."""
    of_a_tpu = settings(finetuning_data, tmp_path, use_tpu=True)
    tpu = FinetuningConfig.create(**of_a_tpu)
    assert not tpu.bucket_by_length
    config = FinetuningConfig.create(
        **settings(finetuning_data, tmp_path, num_train_epochs=0.1),
        precision=tpu.precision,
        bucket_by_length=tpu.bucket_by_length,
        jit_compile=True,
    )
    config = dataclasses.replace(config, task_names=("cola", "chunk"))
    (result,) = run.run(config, quiet)
    assert result.metrics.keys() == {"cola/dev", "chunk/dev"}
    assert tf.train.latest_checkpoint(str(tmp_path / "model_1"))
