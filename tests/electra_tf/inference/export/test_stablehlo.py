"""StableHLO programs answer ids as the SavedModel does, under jax."""

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export
from tests.jax_python import ROOT, needs_jax, run_jax


@pytest.fixture(scope="module")
def exported_stablehlo(pretrained_dir, tmp_path_factory) -> pathlib.Path:
    """The version's folder, where docs/serving.md has it."""
    folder = tmp_path_factory.mktemp("stablehlo")
    config = ExportConfig(
        model_dir=pretrained_dir,
        export_dir=folder / "my_data/exported/discriminator_stablehlo",
        format="stablehlo",
    )
    return export(config, [PRETRAINED], lambda line: None)


def test_the_description_names_the_programs(exported_stablehlo):
    description = json.loads((exported_stablehlo / "description.json").read_text())
    shapes = [(program["batch"], program["length"]) for program in description["programs"]]
    assert shapes == [(1, 4), (1, 16), (8, 4), (8, 16)]
    assert description["results"] == ["replaced_probability"]
    files = {path.name for path in exported_stablehlo.iterdir()}
    assert files == {
        *(program["file"] for program in description["programs"]),
        *("weights.npz", "vocab.txt", "description.json"),
    }
    with np.load(exported_stablehlo / description["weights"]) as weights:
        assert "electra/embeddings/word_embeddings" in weights.files
        assert {weights[name].dtype.name for name in weights.files} == {"float32"}


def test_programs_call_nothing_outside_of_stablehlo(exported_stablehlo):
    for path in exported_stablehlo.glob("*.stablehlo"):
        code = path.read_bytes()
        assert b"mhlo.erf" not in code
        assert b"custom_call" not in code


@needs_jax
def test_jax_answers_as_the_saved_model(exported_stablehlo, exported):
    """The documented lines, with ids of their own."""
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    (code,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "xla_client" in block
    )
    folder = exported_stablehlo.parents[3]
    ids = np.random.default_rng(2).integers(5, 40, (8, 16)).astype(np.int32)
    mask = (np.arange(16) < np.arange(3, 11)[:, np.newaxis]).astype(np.int32)
    np.savez(folder / "inputs.npz", ids=ids, mask=mask)
    given = 'inputs = np.load("inputs.npz")\nids, mask = inputs["ids"], inputs["mask"]\n'
    assert "mask = np.ones_like(ids)\n" in code
    code = code.replace("mask = np.ones_like(ids)\n", given)
    code += 'np.savez("outputs.npz", **answers)\n'
    run_jax("-c", code, cwd=folder)
    signature = tf.saved_model.load(str(exported["discriminator"])).signatures["tokens"]
    wanted = signature(
        input_ids=tf.constant(ids),
        input_mask=tf.constant(mask),
        segment_ids=tf.zeros_like(ids),
    )["replaced_probability"]
    with np.load(folder / "outputs.npz") as answers:
        np.testing.assert_allclose(answers["replaced_probability"], wanted, atol=1e-6)
