"""Several devices and several processes train what one device trains."""

import json
import pathlib
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model.token_scores import WITHIN_TOKEN_AUC
from electra_tf.training.monitoring.run_info import read_sentences
from electra_tf.training.step import TrainingSteps
from electra_tf.util.errors import PreemptedError, UserError, WorkerLostError
from tests import pretraining_runs, processes
from tests.conftest import tiny_settings

PROGRAM = "run_pretraining.py"
STEPS, SAVED_STEP = 20, 10
# Without dropout, whose masks differ by replica; masks and samples are drawn all the same.
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# The run on one device that it is compared with computes its batches whole.
IN_PARTS = {"gradient_accumulation_steps": 2}
MIRRORED = {"strategy": "mirrored", "num_virtual_cpus": 2}


def quiet(message: str) -> None:
    """Says nothing."""


def settings(data_dir: pathlib.Path, folder: pathlib.Path, **overrides) -> dict:
    tiny = tiny_settings(data_dir, folder)
    return {
        **tiny,
        "model_hparam_overrides": {**tiny["model_hparam_overrides"], **NO_DROPOUT},
        "num_train_steps": STEPS,
        "save_checkpoints_steps": SAVED_STEP,
        "iterations_per_loop": 5,
        "clip_norm": 0.5,  # below every norm of these steps
        "eval_tfrecords": str(data_dir / "pretrain_tfrecords" / "*"),
        "num_eval_steps": 100,  # all; the last batch is partly padding
        **overrides,
    }


@pytest.fixture(scope="module")
def one_device(tiny_data, tmp_path_factory) -> pathlib.Path:
    """The folder of a run on one device."""
    folder = tmp_path_factory.mktemp("one_device")
    pretraining_runs.train(PretrainingConfig.create(**settings(tiny_data, folder)), quiet)
    return folder / "model"


@pytest.fixture(scope="module")
def two_workers(tiny_data, tmp_path_factory) -> tuple[pathlib.Path, list]:
    """The folder of the same run on two processes, and how they ended."""
    folder = tmp_path_factory.mktemp("two_workers")
    given = settings(tiny_data, folder, **IN_PARTS)
    ends = processes.finish(processes.start_workers(PROGRAM, given, fresh=True))
    return folder / "model", ends


def weights(model_dir: pathlib.Path, step: int = STEPS) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(model_dir / f"ckpt-{step}"))
    names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}


def log_records(model_dir: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (model_dir / "train_log.jsonl").open()]


def assert_equal_runs(actual: pathlib.Path, expected: pathlib.Path) -> None:
    expected_weights, actual_weights = weights(expected), weights(actual)
    assert expected_weights.keys() == actual_weights.keys()
    for name, value in expected_weights.items():
        np.testing.assert_allclose(actual_weights[name], value, atol=1e-5, err_msg=name)
    # A resumed run also logs the settings that have changed.
    measured = [
        [record for record in log_records(folder) if record["kind"] != "settings"]
        for folder in (actual, expected)
    ]
    for ours, theirs in zip(*measured, strict=True):
        assert_equal_records(ours, theirs)


def assert_equal_records(ours: dict, theirs: dict) -> None:
    """Compares lines of the log but for the rates; a mean over nothing is None."""
    assert (ours["step"], ours["kind"]) == (theirs["step"], theirs["kind"])
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"kind", "seconds_left"}:
        if not name.endswith("_per_second"):
            values = [np.array(record[name], float) for record in (ours, theirs)]
            # A rank statistic: rounding swaps two nearly equal scores out of a thousand pairs.
            atol = 5e-3 if name == WITHIN_TOKEN_AUC else 1e-5
            np.testing.assert_allclose(*values, atol=atol, rtol=1e-5, err_msg=name)


def cut_back(model_dir: pathlib.Path, target: pathlib.Path) -> None:
    """Copies a run as it was when it was stopped after its first checkpoint."""
    shutil.copytree(model_dir, target)
    for path in target.glob(f"ckpt-{STEPS}.*"):
        path.unlink()
    name = f"ckpt-{SAVED_STEP}"
    (target / "checkpoint").write_text(
        f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    )


def test_two_devices_equal_one(tiny_data, tmp_path, one_device):
    trained = [record for record in log_records(one_device) if record["kind"] == "train"]
    assert min(record["gradient_norm"] for record in trained) > 0.5
    config = PretrainingConfig.create(**settings(tiny_data, tmp_path), **MIRRORED, **IN_PARTS)
    said = []
    pretraining_runs.train(config, said.append)
    assert_equal_runs(tmp_path / "model", one_device)
    ours, theirs = (read_sentences(each) for each in (tmp_path / "model", one_device))
    assert [record["step"] for record in theirs] == [SAVED_STEP, STEPS]
    for record, expected in zip(ours, theirs, strict=True):
        assert len(expected["sentences"]) == 4
        for row, row_expected in zip(record["sentences"], expected["sentences"], strict=True):
            assert [token[:2] for token in row] == [token[:2] for token in row_expected]
            np.testing.assert_allclose(
                *([t[2] for t in r] for r in (row, row_expected)), atol=2e-3
            )
    spread = next(line for line in said if line.startswith("Distribution:"))
    assert "mirrored, 2 replicas" in spread
    assert "4 per replica in 2 micro-batches" in spread


def test_two_processes_equal_one_and_only_the_chief_writes(two_workers, one_device):
    model_dir, ((chief_rc, chief_out, chief_err), (rc, out, err)) = two_workers
    assert (chief_rc, rc) == (0, 0), chief_err + err
    assert_equal_runs(model_dir, one_device)
    assert "multi_worker, 2 replicas" in chief_out
    assert "step 20/20" in chief_out
    assert out == ""
    assert len(list((model_dir / "tensorboard").glob("events*"))) == 1


@pytest.mark.parametrize("before", ["two", "one"])
def test_a_run_goes_on_with_another_number_of_replicas(
    before, tiny_data, tmp_path, one_device, two_workers
):
    cut_back(two_workers[0] if before == "two" else one_device, tmp_path / "model")
    after = {} if before == "two" else MIRRORED
    said = []
    pretraining_runs.train(
        PretrainingConfig.create(**settings(tiny_data, tmp_path), **after), said.append
    )
    assert any("Resuming from" in line and f"step {SAVED_STEP}" in line for line in said)
    assert_equal_runs(tmp_path / "model", one_device)


def test_a_killed_worker_ends_the_others_in_a_state_to_go_on_from(tiny_data, tmp_path):
    forever = settings(tiny_data, tmp_path, num_train_steps=1_000_000, objective="mlm")
    workers = processes.start_workers(PROGRAM, forever)
    # Saved after an evaluation, which has no discriminator here.
    processes.wait_until((tmp_path / "model" / f"ckpt-{SAVED_STEP}.index").exists, workers)
    workers[1].kill()
    (status, _, error), _ = processes.finish(workers)
    assert status == WorkerLostError.exit_status
    assert "Worker 0 of 2 stops: another worker has exited" in error
    assert "same command" in error
    assert str(tmp_path / "model") in error
    assert "Traceback" not in error
    newest = tf.train.latest_checkpoint(str(tmp_path / "model"))
    saved = int(newest.rpartition("-")[2])
    alone = settings(
        tiny_data,
        tmp_path,
        num_train_steps=saved + 5,
        objective="mlm",
        allow_changed_settings=("num_train_steps",),
    )
    pretraining_runs.train(PretrainingConfig.create(**alone), quiet)
    assert log_records(tmp_path / "model")[-1]["step"] == saved + 5


def test_sigterm_to_one_worker_saves_and_stops_all(tiny_data, tmp_path):
    model_dir = tmp_path / "model"
    workers = processes.start_workers(
        PROGRAM,
        settings(
            tiny_data,
            tmp_path,
            num_train_steps=1_000_000,
            objective="mlm",
            save_checkpoints_steps=1_000_000,
        ),
    )
    processes.wait_until(
        lambda: (model_dir / "train_log.jsonl").exists() and bool(log_records(model_dir)),
        workers,
    )
    workers[1].send_signal(signal.SIGTERM)
    ends = processes.finish(workers)
    assert [end[0] for end in ends] == [PreemptedError.exit_status] * 2, ends
    newest = tf.train.latest_checkpoint(str(model_dir))
    step = int(newest.rpartition("-")[2])
    assert step % 5 == 0  # the end of a loop
    assert step == log_records(model_dir)[-1]["step"]
    for _, _, error in ends:
        assert f"Preempted at step {step}" in error
        assert "same command" in error


def test_a_preempted_run_equals_an_uninterrupted_one(
    tiny_data, tmp_path, one_device, monkeypatch
):
    config = PretrainingConfig.create(**settings(tiny_data, tmp_path))
    run_steps = TrainingSteps.run

    def run_and_signal(self, *arguments):
        run_steps(self, *arguments)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingSteps, "run", run_and_signal)
        with pytest.raises(PreemptedError, match=r"step 5; saved .*ckpt-5"):
            pretraining_runs.train(config, quiet)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    pretraining_runs.train(config, quiet)
    assert_equal_runs(tmp_path / "model", one_device)


def test_a_worker_waits_for_the_others_no_longer_than_it_is_told(tiny_data, tmp_path):
    here, there = processes.free_ports(2)
    alone = processes.start(
        PROGRAM,
        settings(tiny_data, tmp_path, worker_timeout=2),
        "--strategy=multi_worker",
        f"--workers=127.0.0.1:{here},127.0.0.1:{there}",
        "--task_index=0",
    )
    ((status, _, error),) = processes.finish([alone])
    assert status == WorkerLostError.exit_status
    missing = re.escape(f"worker 1 (127.0.0.1:{there})")
    assert re.search(rf"waited \d+ s for {missing}: .*--worker_timeout", error)
    assert not (tmp_path / "model").exists()


def in_folders_of_their_own(tmp_path, given: dict) -> list[tuple[int, str, str]]:
    """Runs two workers that name one folder, which each of them has on its own disk."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    given = {**given, "model_dir": "model"}
    workers = processes.start_workers(PROGRAM, given, fresh=True, folders=folders)
    return processes.finish(workers)


def test_workers_that_evaluate_different_checkpoints_are_refused(
    tiny_data, tmp_path, one_device
):
    shutil.copytree(one_device, tmp_path / "first/model")
    cut_back(one_device, tmp_path / "second/model")
    given = settings(tiny_data, tmp_path, do_train=False, do_eval=True)
    ends = in_folders_of_their_own(tmp_path, given)
    assert [rc for rc, _, _ in ends] == [1, 1], ends
    told = rf"different checkpoints in model: .*\(by worker: {STEPS}, {SAVED_STEP}\)"
    assert all(re.search(told, err) for _, _, err in ends), ends


def test_workers_that_count_the_tokens_of_different_records_are_refused(tiny_data, tmp_path):
    """Each would mask other tokens of the held-out records."""
    given = settings(
        tiny_data, tmp_path, masking="strategic", num_train_steps=2, num_warmup_steps=1
    )
    pretraining_runs.train(PretrainingConfig.create(**given), quiet)
    shards = sorted((tiny_data / "pretrain_tfrecords").iterdir())
    for folder, shard in zip(("first", "second"), shards, strict=True):
        shutil.copytree(tmp_path / "model", tmp_path / folder / "model")
        shutil.copy(shard, tmp_path / folder / "train.tfrecord")
    given |= {"do_train": False, "do_eval": True, "pretrain_tfrecords": "train.tfrecord"}
    ends = in_folders_of_their_own(tmp_path, given)
    assert [rc for rc, _, _ in ends] == [1, 1], ends
    told = r"same settings and data. Different:\n  token counts of the training records: "
    assert all(re.search(told, err) for _, _, err in ends), ends


def test_workers_that_do_not_share_the_folder_do_not_train(tiny_data, tmp_path):
    ends = in_folders_of_their_own(tmp_path, settings(tiny_data, tmp_path))
    assert [rc for rc, _, _ in ends] == [1, 1], ends
    assert all("The workers do not share model (" in err for _, _, err in ends), ends
    assert not list(tmp_path.glob("*/model/ckpt-*"))


def test_a_batch_that_cannot_be_shared_is_refused(tiny_data, tmp_path):
    odd = settings(tiny_data, tmp_path, train_batch_size=7)
    with pytest.raises(UserError, match=r"--train_batch_size=7 .* pass 6 or 8"):
        pretraining_runs.train(PretrainingConfig.create(**odd, **MIRRORED), quiet)
    assert not (tmp_path / "model").exists()


def test_xla_for_several_cpus_is_refused(tiny_data, tmp_path):
    compiled = settings(tiny_data, tmp_path, jit_compile=True)
    with pytest.raises(UserError, match="--jit_compile: TensorFlow compiles"):
        pretraining_runs.train(PretrainingConfig.create(**compiled, **MIRRORED), quiet)


def test_kernels_without_a_gpu_are_refused(tiny_data, tmp_path):
    pytest.importorskip("triton")
    options = {"jit_compile": True, "triton_kernels": True, "precision": "mixed_bfloat16"}
    config = PretrainingConfig.create(**settings(tiny_data, tmp_path, **options))
    with pytest.raises(UserError, match="--triton_kernels needs an NVIDIA GPU"):
        pretraining_runs.train(config, quiet)
    assert not (tmp_path / "model").exists()


def test_the_step_compiles_as_a_tpu_needs_it(tiny_data, tmp_path):
    """Every operation has to be known to XLA, and every shape static, as on a TPU."""
    tpu = PretrainingConfig.create(**settings(tiny_data, tmp_path), use_tpu=True)
    config = PretrainingConfig.create(
        **settings(tiny_data, tmp_path, num_train_steps=2),
        precision=tpu.precision,
        jit_compile=True,
    )
    assert config.precision == "mixed_bfloat16"
    assert np.isfinite(pretraining_runs.train(config, quiet)["loss"])
