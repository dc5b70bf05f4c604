"""LiteRT files answer ids as the model does, at any batch size and length."""

import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export.config import ExportConfig
from electra_tf.export.litert import FLOAT32_FILE, INT8_FILE
from electra_tf.export.models import load_servable
from electra_tf.export.run import run
from electra_tf.text_inputs import TextInputs

interpreter = pytest.importorskip("ai_edge_litert.interpreter")


@pytest.fixture(scope="module")
def exported_litert(tmp_path_factory, tiny_data):
    """The discriminator of a model wide enough to be quantized, and the model itself."""
    from tests.finetune.conftest import write_model

    folder = tmp_path_factory.mktemp("litert")
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 1}
    write_model(folder / "m", tiny_data, model_hparam_overrides=shape, embedding_size=64)
    config = ExportConfig(
        model_dir=str(folder / "m"), export_dir=folder / "exported", format="litert"
    )
    directory = run(config, lambda line: None)
    return directory, load_servable(config, lambda line: None)


def answers(directory, file: str, inputs: TextInputs) -> np.ndarray:
    runner = interpreter.Interpreter(str(directory / file)).get_signature_runner()
    features = {name: value.numpy() for name, value in inputs._asdict().items()}
    return runner(**features)["replaced_probability"]


@pytest.mark.parametrize("shape", [(1, 5), (3, 16)])
def test_answers(exported_litert, shape):
    directory, servable = exported_litert
    ids = tf.constant(np.random.default_rng(1).integers(5, 40, shape), tf.int32)
    mask = tf.sequence_mask(tf.range(shape[0]) + 3, shape[1], tf.int32)
    inputs = TextInputs(ids, mask, tf.zeros_like(ids))
    wanted = servable.predict(inputs)["replaced_probability"]
    np.testing.assert_allclose(answers(directory, FLOAT32_FILE, inputs), wanted, atol=1e-5)
    int8 = answers(directory, INT8_FILE, inputs)
    np.testing.assert_allclose(int8, wanted, atol=0.02)
    assert np.any(int8 != wanted)


def test_int8_is_smaller(exported_litert):
    directory, _ = exported_litert
    sizes = [(directory / file).stat().st_size for file in (INT8_FILE, FLOAT32_FILE)]
    assert sizes[0] < 0.5 * sizes[1]


def test_the_description_says_what_a_client_needs(exported_litert):
    directory, servable = exported_litert
    described = json.loads((directory / "description.json").read_text())
    assert described["max_seq_length"] == 16
    assert described["inputs"]["segment_ids"] == {"dtype": "int32", "shape": [None, None]}
    assert list(described["outputs"]) == ["replaced_probability"]
    tokens = (directory / "vocab.txt").read_text().splitlines()
    assert tokens == list(servable.vocabulary.tokens)
