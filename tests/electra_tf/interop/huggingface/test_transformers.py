"""What we write, as transformers loads and computes it; needs a Python with PyTorch.

ELECTRA_TORCH_PYTHON=/path/to/python python -m pytest tests/electra_tf/interop
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from tests.electra_tf.interop.huggingface.test_format import TOLERANCE, finetuned, stored
from tests.electra_tf.interop.huggingface.test_heads import with_settings
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    choice_logits,
    format_of,
    outputs,
    read,
    tiny_pretraining_checkpoint,
)

TORCH_PYTHON = os.environ.get("ELECTRA_TORCH_PYTHON")
SIDE = pathlib.Path(__file__).with_name("huggingface_side.py")
pytestmark = pytest.mark.skipif(
    not TORCH_PYTHON,
    reason="set ELECTRA_TORCH_PYTHON to the Python of an environment with PyTorch: python -m "
    "venv torch && torch/bin/pip install torch transformers",
)


def run_transformers(folder: pathlib.Path, inputs: dict) -> tuple[dict, dict]:
    """Returns the outputs of a folder's model, and what its tokenizer says."""
    np.savez(folder / "inputs.npz", **inputs)
    command = [TORCH_PYTHON, str(SIDE), "run", str(folder)]
    result = subprocess.run(
        [*command, str(folder / "inputs.npz"), str(folder / "outputs.npz")],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout.splitlines()[-1])
    assert said["problems"] == {}
    return dict(np.load(folder / "outputs.npz")), said["tokens"]


def assert_agree(ours: np.ndarray, theirs: np.ndarray, mask: np.ndarray | None = None) -> None:
    difference = np.abs(ours - theirs)
    assert (difference if mask is None else difference[mask == 1]).max() < TOLERANCE


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_pretraining(size, tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / size, "huggingface")
    inputs, _ = stored(f"{size}/discriminator")
    format_of("electra_tf").write(checkpoint, str(tmp_path / "ours"))
    ours = read(tmp_path / "ours", "electra_tf")
    format_of("huggingface").write(ours, str(tmp_path / "there"))
    expected = outputs(ours, inputs)
    for part in ("discriminator", "generator"):
        theirs, tokens = run_transformers(tmp_path / "there" / part, inputs)
        assert_agree(expected[part], theirs["logits"], inputs["attention_mask"])
    assert tokens == {"w1 w2": ["w1", "w2"], "W1 É": ["[UNK]", "[UNK]"]}


def test_lower_casing_and_a_fresh_model(make_config, tmp_path):
    checkpoint = tiny_pretraining_checkpoint(make_config)
    format_of("huggingface").write(checkpoint, str(tmp_path))
    inputs, _ = stored("small/discriminator")
    inputs["input_ids"] = inputs["input_ids"] % checkpoint.description.encoder.vocab_size
    expected = outputs(checkpoint, inputs)
    for part in ("discriminator", "generator"):
        theirs, tokens = run_transformers(tmp_path / part, inputs)
        assert_agree(expected[part], theirs["logits"], inputs["attention_mask"])
    assert tokens["W1 É"] == ["w1", "[UNK]"]


@pytest.mark.parametrize(
    ("kind", "units"),
    [("classification", 3), ("multilabel", 4), ("regression", 1), ("tagging", 3)],
)
def test_finetuned_heads(kind, units, tmp_path):
    checkpoint = finetuned(kind, units=units)
    format_of("huggingface").write(checkpoint, str(tmp_path))
    inputs, _ = stored("small/discriminator")
    theirs, _ = run_transformers(tmp_path, inputs)
    ours = outputs(checkpoint, inputs)["mine"]
    assert_agree(
        ours, theirs["logits"], inputs["attention_mask"] if kind == "tagging" else None
    )


def test_answers(tmp_path):
    checkpoint = with_settings("qa", v2=True)
    format_of("huggingface").write(checkpoint, str(tmp_path))
    inputs, _ = stored("small/discriminator")
    theirs, _ = run_transformers(tmp_path, inputs)
    ours = outputs(checkpoint, inputs)["mine"]
    for i, name in enumerate(("start_logits", "end_logits")):
        assert_agree(ours[..., i], theirs[name], inputs["attention_mask"])


@pytest.mark.parametrize("count", [2, 5])
def test_choices(count, tmp_path):
    checkpoint = finetuned("multiple_choice", units=1)
    format_of("huggingface").write(checkpoint, str(tmp_path))
    sequences, _ = stored("small/discriminator")
    places = np.arange(3 * count).reshape(3, count) % 3
    inputs = {name: value[places] for name, value in sequences.items()}
    inputs["input_ids"] = (inputs["input_ids"] + np.arange(count)[:, None]) % 48
    theirs, _ = run_transformers(tmp_path, inputs)
    assert theirs["logits"].shape == (3, count)
    assert_agree(choice_logits(checkpoint, inputs), theirs["logits"])


def test_an_encoder_alone(tmp_path):
    checkpoint = finetuned("classification", units=9)
    format_of("huggingface").write(checkpoint, str(tmp_path))
    inputs, _ = stored("small/discriminator")
    theirs, _ = run_transformers(tmp_path, inputs)
    ours = outputs(checkpoint, inputs)["sequence"]
    assert_agree(ours, theirs["last_hidden_state"], inputs["attention_mask"])
