"""The GPU benchmark where there is no GPU: its numbers, its table and its refusals."""

import pathlib
import subprocess
import sys

import pytest

from benchmarks.pretraining_step import Answer, huggingface_step_command
from benchmarks.step_measurements import Workload, format_table, summarize
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.flops.gpu_peaks import peak_bfloat16_flops

REPOSITORY = pathlib.Path(__file__).parents[2]


def create_config() -> PretrainingConfig:
    return PretrainingConfig.create(data_dir="d", model_name="m", train_batch_size=64)


def test_utilization_is_model_flops_over_time_and_peak():
    config = create_config()
    answers = [
        Answer(seconds, 0.0, 45.0, 14_000_000, 1000, peak_device_bytes=3_000_000_000)
        for seconds in (4.0, 2.0, 1.0)
    ]
    ours = summarize("ours", answers, steps=10)
    theirs = summarize("theirs", [Answer(6.0, 0.0, 45.0, 14_000_000, 2_000_000)], steps=10)
    assert ours.seconds_per_step == (0.4, 0.2, 0.1)
    assert ours.peak_bytes == 3_000_000_000
    assert theirs.peak_bytes == 2_000_000 * 1024  # of the process, where there is no GPU
    # The median turn reaches exactly a quarter of this peak.
    workloads = {"small": Workload(64, model_flops_per_step(config))}
    peak = 4 * model_flops_per_step(config) / 0.2
    table = format_table(workloads, {"small": [ours, theirs]}, peak)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert rows[2][2:4] == ["200.0", "320.0 (160.0 – 640.0)"]
    assert rows[2][5:] == ["25.0 %", "3,000", "1.00"]
    assert rows[3][5:] == ["8.3 %", "2,048", "3.00"]
    unknown = format_table(workloads, {"small": [ours, theirs]}, None)
    assert unknown.splitlines()[2].split("|")[6].strip() == "-"


def test_peaks_are_those_of_one_name():
    assert peak_bfloat16_flops("NVIDIA A100-SXM4-80GB") == 312e12
    assert peak_bfloat16_flops("NVIDIA A10") == 125e12
    # Another board, another clock.
    assert peak_bfloat16_flops("NVIDIA A10G") is None
    assert peak_bfloat16_flops("NVIDIA GeForce RTX 4090 Laptop GPU") is None


def test_pytorchs_side_gets_the_same_model():
    config = create_config()
    command = huggingface_step_command("python", config, device="cuda", compile_mode="default")
    assert command[:2] == [
        "python",
        str(REPOSITORY / "benchmarks" / "huggingface_step.py"),
    ]
    for said in ('"compile_mode": "default"', '"device": "cuda"', '"train_batch_size": 64'):
        assert said in command[2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "TensorFlow finds no GPU"),
        (["--cases=small:128"], "'small:128' is not size:batch:length"),
        (["--cases=tiny:1:1"], "'tiny:1:1' is not size:batch:length"),
        (["--cases=small:1:1024"], "exceeds the model's 512 position embeddings"),
        (["--model_hparam_overrides={"], "is not valid JSON"),
        (["--lower=x", "--checked_cases=base:1:1"], "'base:1:1' is none of --cases"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(flags, message, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_training_step", *flags],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
