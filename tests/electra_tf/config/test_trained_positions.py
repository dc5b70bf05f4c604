"""Positions that a model was not trained on are told of where texts may be longer."""

import dataclasses
import json

import pytest

from electra_tf.config.trained_positions import (
    trained_positions,
    untrained_positions_notes,
    warn_of_longer_training,
    warn_of_untrained_positions,
)
from electra_tf.interop.native_models import PRETRAINING
from electra_tf.util.console import warn_once
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, format_of, read

PRETRAINED = {"electra_objective": True, "max_seq_length": 128, "model_name": "small"}
FINETUNED = {"task_names": ["cola"], "max_seq_length": 512}


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        (PRETRAINED, 128),
        ({**PRETRAINED, "data_dir": "."}, 128),
        ({**PRETRAINED, "max_seq_length": 64, "trained_positions": 128}, 128),
        # What this was trained on before may have been longer.
        ({**PRETRAINED, "init_checkpoint": "gone"}, None),
        ({**PRETRAINED, "model_name": "converted", "data_dir": "."}, None),
        # Trained here since then.
        ({**PRETRAINED, "trained_positions": None, "data": {"128": "digest"}}, None),
        ({**FINETUNED, "trained_positions": 140}, 140),
        (FINETUNED, None),
        ({}, None),
    ],
)
def test_the_positions_of_a_run(saved, expected, capsys):
    warn_once.cache_clear()
    assert trained_positions(saved) == expected
    warn_of_untrained_positions(saved, expected or 512, "--max_seq_length", "models/small")
    assert capsys.readouterr().err == ""
    warn_of_untrained_positions(saved, 512, "--max_seq_length", "models/small")
    warned = capsys.readouterr().err
    if expected is None:
        assert warned == ""
    else:
        told = f"--max_seq_length=512 is longer than the {expected} tokens that models/small"
        assert f"{told} was trained on" in warned
    warn_of_longer_training(saved, 512, "--max_seq_length", "models/start")
    warned = capsys.readouterr().err
    assert ("the 128 tokens that models/start was trained on" in warned) == (expected == 128)
    warn_of_longer_training(saved, expected or 512, "--max_seq_length", "models/start")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({**PRETRAINED, "max_seq_length": 64}, 128),
        ({**PRETRAINED, "max_seq_length": 256}, 256),
        ({**FINETUNED, "trained_positions": 140}, 140),
        ({**PRETRAINED, "model_name": "converted", "data_dir": "."}, None),
        ({"model_type": "electra"}, None),
    ],
)
def test_a_run_that_starts_from_another_has_trained_what_both_have(before, expected, tmp_path):
    is_ours = "model_type" not in before
    content = {"hyperparameters": before} if is_ours else before
    (tmp_path / "config.json").write_text(json.dumps(content))
    for path in (tmp_path, tmp_path / "ckpt-7"):
        saved = {**PRETRAINED, "init_checkpoint": str(path)}
        assert trained_positions(saved) == expected
    before["init_checkpoint"] = str(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"hyperparameters": before}))
    if "electra_objective" in before:
        assert trained_positions(saved) is None  # a folder that has been moved


def test_a_converted_model_does_not_tell_the_length_of_its_training():
    checkpoint = read(HUGGINGFACE_DATA / "small", "huggingface")
    values = PRETRAINING.hyperparameters(checkpoint)
    assert "max_seq_length" in values
    assert trained_positions(values) is None


@pytest.mark.parametrize("name", ["huggingface", "kerashub"])
def test_conversions_tell_where_texts_end(name, tmp_path):
    pytest.importorskip("keras_hub" if name == "kerashub" else "safetensors")
    checkpoint = read(HUGGINGFACE_DATA / "small", "huggingface")
    positions = checkpoint.description.encoder.max_position_embeddings
    for length, expected in ((positions - 1, True), (positions, False)):
        saved = {"electra_objective": True, "max_seq_length": length}
        described = dataclasses.replace(checkpoint.description, hyperparameters=saved)
        trained = dataclasses.replace(checkpoint, description=described)
        notes = format_of(name).write(trained, str(tmp_path / str(length)))
        assert any(f"truncate texts to {length} tokens" in note for note in notes) == expected
    assert untrained_positions_notes({}, positions) == []
