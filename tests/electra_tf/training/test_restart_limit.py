"""A run that is started again and again without progress is refused."""

import types

import pytest

from electra_tf.training.restart_limit import counted_start, limited_starts
from electra_tf.util.errors import LockedError, UserError, WorkerLostError


def start_and_lose_a_worker(model_dir, limit: int = 3) -> None:
    with counted_start(str(model_dir), limit):
        raise WorkerLostError


@pytest.mark.parametrize("suffix", ["", "_1"], ids=["pre-training", "trial of fine-tuning"])
def test_starts_without_a_new_checkpoint_are_limited(tmp_path, suffix):
    model_dir = tmp_path / "run"
    folder = tmp_path / f"run{suffix}"
    for _ in range(3):
        with pytest.raises(WorkerLostError):
            start_and_lose_a_worker(model_dir)
    with pytest.raises(UserError, match=r"started 3 times .*run\.starts\.json"):
        start_and_lose_a_worker(model_dir)
    # Progress, and an end without an error, start the count anew.
    folder.mkdir()
    (folder / "ckpt-5.index").touch()
    for _ in range(3):
        with pytest.raises(WorkerLostError):
            start_and_lose_a_worker(model_dir)
    with counted_start(str(model_dir), 4):
        pass
    for _ in range(3):
        with pytest.raises(WorkerLostError):
            start_and_lose_a_worker(model_dir)
    with pytest.raises(UserError, match="started 3 times"):
        start_and_lose_a_worker(model_dir)


def test_checkpoints_of_trials_count_beside_a_folder_of_their_name(tmp_path):
    """Such as one that was made for them; a pre-training describes its folder at its start."""
    model_dir, trial = tmp_path / "run", tmp_path / "run_1"
    model_dir.mkdir()
    trial.mkdir()
    for step in range(2):
        with pytest.raises(WorkerLostError):
            start_and_lose_a_worker(model_dir, limit=1)
        (trial / f"ckpt-{step}.index").touch()
    (model_dir / "config.json").write_text("{}")
    with pytest.raises(WorkerLostError):
        start_and_lose_a_worker(model_dir, limit=1)
    (trial / "ckpt-9.index").touch()
    with pytest.raises(UserError, match="started 1 times"):
        start_and_lose_a_worker(model_dir, limit=1)


@pytest.mark.parametrize("limit", [None, 1])
def test_starts_are_limited_where_the_flag_is_given(tmp_path, limit):
    config = types.SimpleNamespace(
        max_starts_without_progress=limit,
        model_dir=str(tmp_path / "run"),
        strategy="one_device",
    )
    with pytest.raises(WorkerLostError), limited_starts(config):
        raise WorkerLostError
    refused = pytest.raises(UserError if limit else WorkerLostError)
    with refused, limited_starts(config):
        raise WorkerLostError


def test_starts_while_another_program_trains_do_not_count(tmp_path):
    model_dir = tmp_path / "run"
    for _ in range(3):
        with pytest.raises(LockedError), counted_start(str(model_dir), 2):
            raise LockedError
    for _ in range(2):
        with pytest.raises(WorkerLostError):
            start_and_lose_a_worker(model_dir, limit=2)
    with pytest.raises(UserError, match="started 2 times"):
        start_and_lose_a_worker(model_dir, limit=2)
