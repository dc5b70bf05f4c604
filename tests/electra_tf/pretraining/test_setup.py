"""What a run records, and starts from, before its first step."""

import dataclasses
import json
import pathlib
import types
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.recorded_settings import Change
from electra_tf.config.resumption import changes_of_resumed_run
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.objectives.two_stage import TwoStage
from electra_tf.pretraining.setup import (
    data_statistics,
    recorded_origin,
    require_same_stage,
    restore,
    run_settings,
    utilization_of,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import TWO_STAGE


def strategy(*devices: str) -> types.SimpleNamespace:
    extended = types.SimpleNamespace(worker_devices=devices)
    return types.SimpleNamespace(extended=extended, num_replicas_in_sync=len(devices))


def test_the_utilization_is_of_gpus_whose_peak_is_known(make_config, monkeypatch):
    config = make_config()
    assert utilization_of(config, strategy("/device:CPU:0")) is None
    names = ["NVIDIA A30", "NVIDIA A30"]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: range(len(names)))
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"device_name": names[gpu]},
    )
    gpus = strategy("/device:GPU:0", "/device:GPU:1")
    found = utilization_of(config, gpus)
    assert found.peak_flops == pytest.approx(2 * 165e12)
    assert found.flops_per_step == {(0, 16): model_flops_per_step(config)}
    for unknown in ("NVIDIA A10", "No such GPU"):  # two kinds; one without a known peak
        names[:] = [unknown, "NVIDIA A30" if unknown == "NVIDIA A10" else unknown]
        assert utilization_of(config, gpus) is None


def test_workers_that_read_their_own_files_are_recorded(make_config):
    """The examples of a batch depend on their number."""
    vocabulary = types.SimpleNamespace(sha256="v")
    records = types.SimpleNamespace(fingerprint=lambda length: "d")

    def settings(**given: str) -> dict:
        return run_settings(make_config(**given), vocabulary, records, num_workers=3)

    assert settings(shard_by="file")["file_readers"] == 3
    assert "file_readers" not in settings()


@pytest.mark.parametrize(
    ("step", "recorded", "is_refused"),
    [
        # The discriminator now begins after step 50; by the record, after step 100 or 20.
        (50, {"num_train_steps": 200}, False),
        (51, {"num_train_steps": 200}, True),
        (51, {"num_train_steps": 40}, False),
        (50, {"num_train_steps": 40}, True),
        (50, {"objective_hparams": {"generator_share": 0.2}}, True),
        (50, {"disc_weight": 1.0}, False),
    ],
)
def test_a_resumed_run_stays_in_its_stage(make_config, step, recorded, is_refused):
    config = make_config(**TWO_STAGE, num_train_steps=100)
    changes = [Change(name, value, None, TRAINING) for name, value in recorded.items()]
    message = f"discriminator of --objective=two_stage began after .* resumes from step {step},"
    refused = pytest.raises(UserError, match=message) if is_refused else nullcontext()
    with refused:
        require_same_stage(TwoStage, config, changes, step)


@pytest.mark.parametrize("skip_bad_records", [False, True])
def test_records_without_text_are_refused(make_config, vocabulary, skip_bad_records):
    """Their losses are 0 and their metrics NaN, which stops no run."""
    special = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]
    config = make_config(vocab_size=vocabulary.size, skip_bad_records=skip_bad_records)
    counts = np.bincount(special * 5, minlength=vocabulary.size)
    records = types.SimpleNamespace(
        describe=lambda length: "1 file in data", token_counts=lambda size, max_examples: counts
    )
    with pytest.raises(UserError, match="1 file in data contain only special tokens"):
        data_statistics(config, vocabulary, records)
    assert counts[special[0]] == 5  # the source may keep its counts


def test_padding_that_counts_as_text_is_warned_of(make_config, vocabulary, capsys):
    warn_once.cache_clear()
    config = make_config(vocab_size=vocabulary.size)
    for ids, is_warned_of in (([7], False), ([7, vocabulary.pad_id], True)):
        counts = np.bincount(ids, minlength=vocabulary.size)
        records = types.SimpleNamespace(
            describe=lambda length: "1 file in data",
            token_counts=lambda size, max_examples, counts=counts: counts,
        )
        data_statistics(config, vocabulary, records)
        message = "1 file in data have [PAD] where input_mask is 1"
        assert (message in capsys.readouterr().err) is is_warned_of


def record(config, **hyperparameters) -> None:
    folder = pathlib.Path(config.model_dir)
    folder.mkdir(exist_ok=True, parents=True)
    content = {"hyperparameters": hyperparameters, "variables": {}}
    (folder / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ({"init_checkpoint": "long", "max_seq_length": 16}, {"init_checkpoint": "long"}),
        ({"max_seq_length": 8}, {"init_checkpoint": None}),
        ({"max_seq_length": 64}, {"init_checkpoint": None, "trained_positions": 64}),
        (
            {"max_seq_length": 8, "trained_positions": 32},
            {"init_checkpoint": None, "trained_positions": 32},
        ),
        # Of a converted model, which was trained on more than its settings say.
        (
            {"model_name": "converted", "data_dir": ".", "max_seq_length": 16},
            {"init_checkpoint": None, "trained_positions": None},
        ),
        (
            {"max_seq_length": 64, "trained_positions": None, "data": {}},
            {"init_checkpoint": None, "trained_positions": None},
        ),
    ],
)
def test_a_resumed_run_keeps_where_its_weights_came_from(make_config, recorded, kept):
    config = make_config(init_checkpoint="another")
    assert recorded_origin(config) == {}
    record(config, **recorded)
    assert recorded_origin(config) == kept


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"optimizer": "lamb"}, {}),
        ({}, {"precision": "mixed_float16"}),
        ({"precision": "mixed_float16"}, {"precision": "mixed_bfloat16"}),
    ],
)
def test_changes_that_no_checkpoint_can_follow_are_refused(make_config, before, now):
    (name,) = {*before, *now}
    config = make_config(allow_changed_settings=(name,), **now)
    record(config, **dataclasses.asdict(make_config(**before)))
    with pytest.raises(
        UserError, match=rf"no state of this optimizer \({name}.*--init_checkpoint"
    ):
        changes_of_resumed_run(config, dataclasses.asdict(config))
    # Weights are float32 either way.
    config = make_config(precision="mixed_bfloat16", allow_changed_settings=("precision",))
    record(config, **dataclasses.asdict(make_config()))
    (change,) = changes_of_resumed_run(config, dataclasses.asdict(config))[-1:]
    assert change.name == "precision"


def test_a_run_that_has_lost_its_checkpoints_does_not_start_over_in_silence(
    make_config, capsys
):
    config = make_config()
    folder = pathlib.Path(config.model_dir)
    folder.mkdir()

    def starts_over() -> str:
        checkpoints = types.SimpleNamespace(resume=lambda: False)
        assert not restore(config, None, None, None, checkpoints, print)
        return capsys.readouterr().err

    assert not starts_over()
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-4000"\n')
    assert f"{folder}/checkpoint names ckpt-4000, but there is no checkpoint" in starts_over()
