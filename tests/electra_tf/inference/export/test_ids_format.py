"""LiteRT and ONNX files answer ids as the model does, at any batch size and length."""

import dataclasses
import hashlib
import json
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference.export import servable as servables
from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.litert import FLOAT32_FILE, INT8_FILE
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export, load_servable
from electra_tf.inference.export.servable import trace_predict, write_description
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.util.errors import UserError
from tests.conftest import VOCAB_SIZE


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
    servable = load_servable(config, [PRETRAINED], quiet)
    return export(config, [PRETRAINED], quiet), servable, config


def quiet(message: str) -> None:
    """Says nothing."""


def all_answers(directory, file: str, inputs: EncoderInputs) -> dict[str, np.ndarray]:
    interpreter = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="needs LiteRT: pip install ai-edge-litert"
    )
    runner = interpreter.Interpreter(str(directory / file)).get_signature_runner()
    features = {name: value.numpy() for name, value in inputs._asdict().items()}
    return runner(**features)


def answers(directory, file: str, inputs: EncoderInputs) -> np.ndarray:
    return all_answers(directory, file, inputs)["replaced_probability"]


def example_inputs(shape: tuple[int, int]) -> EncoderInputs:
    ids = tf.constant(np.random.default_rng(1).integers(5, 40, shape), tf.int32)
    mask = tf.sequence_mask(tf.range(shape[0]) + 3, shape[1], tf.int32)
    return EncoderInputs(ids, mask, tf.zeros_like(ids))


@pytest.mark.parametrize("shape", [(1, 5), (3, 16)])
def test_answers(exported_litert, shape):
    directory, servable, _ = exported_litert
    inputs = example_inputs(shape)
    wanted = servable.predict(inputs)["replaced_probability"]
    np.testing.assert_allclose(answers(directory, FLOAT32_FILE, inputs), wanted, atol=1e-5)
    int8 = answers(directory, INT8_FILE, inputs)
    np.testing.assert_allclose(int8, wanted, atol=0.02)
    assert np.any(int8 != wanted)


@pytest.mark.parametrize("name", ["litert", "onnx"])
def test_weights_above_the_limit_of_the_files_are_refused(
    pretrained_dir, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(servables, "_MAX_CONSTANT_BYTES", 1000)
    config = ExportConfig(model_dir=pretrained_dir, export_dir=tmp_path / "e", format=name)
    with pytest.raises(UserError, match=f"--format={name} cannot represent .* GB: use --form"):
        export(config, [PRETRAINED], quiet)
    assert list(config.export_dir.iterdir()) == []


def test_embeddings(pretrained_dir, tmp_path, monkeypatch):
    temporary = tmp_path / "job[2]"  # TMPDIR of array jobs
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    config = ExportConfig(
        model_dir=pretrained_dir,
        export_dir=tmp_path / "exported",
        component="embeddings",
        format="litert",
    )
    inputs = example_inputs((3, 9))
    wanted = load_servable(config, [PRETRAINED], quiet).predict(inputs)
    found = all_answers(export(config, [PRETRAINED], quiet), FLOAT32_FILE, inputs)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_electric(tiny_data, tmp_path):
    """Its two towers, too, have only operations of LiteRT."""
    from tests.finetune.conftest import write_model

    write_model(tmp_path / "m", tiny_data, objective="electric")
    config = ExportConfig(
        model_dir=str(tmp_path / "m"), export_dir=tmp_path / "exported", format="litert"
    )
    inputs = example_inputs((3, 9))
    wanted = load_servable(config, [PRETRAINED], quiet).predict(inputs)["replaced_probability"]
    found = answers(export(config, [PRETRAINED], quiet), FLOAT32_FILE, inputs)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_int8_is_smaller(exported_litert):
    directory, _, _ = exported_litert
    sizes = [(directory / file).stat().st_size for file in (INT8_FILE, FLOAT32_FILE)]
    assert sizes[0] < 0.5 * sizes[1]


def test_the_description_says_what_a_client_needs(exported_litert):
    directory, servable, _ = exported_litert
    described = json.loads((directory / "description.json").read_text())
    assert described["max_seq_length"] == 16
    assert described["inputs"]["segment_ids"] == {"dtype": "int32", "shape": [None, None]}
    assert list(described["outputs"]) == ["replaced_probability"]
    tokens = (directory / "vocab.txt").read_text().splitlines()
    assert tokens == list(servable.vocabulary.tokens)


def test_the_described_vocabulary_is_the_one_beside_it(tiny_data, tmp_path):
    """Not that of training, which may have no token for the last embeddings."""
    from tests.finetune.conftest import write_model

    write_model(tmp_path / "m", tiny_data, vocab_size=VOCAB_SIZE + 3)
    config = ExportConfig(model_dir=str(tmp_path / "m"), export_dir=tmp_path, format="litert")
    servable = load_servable(config, [PRETRAINED], quiet)
    write_description(servable, trace_predict(servable), tmp_path)
    content = (tmp_path / "vocab.txt").read_bytes()
    assert content.count(b"\n") == VOCAB_SIZE + 3
    described = json.loads((tmp_path / "description.json").read_text())
    assert described["tokenizer"]["vocab_sha256"] == hashlib.sha256(content).hexdigest()


def test_onnx(exported_litert):
    reason = "needs ONNX: pip install tf2onnx onnxruntime"
    pytest.importorskip("tf2onnx", reason=reason)
    onnxruntime = pytest.importorskip("onnxruntime", reason=reason)
    import onnx

    from electra_tf.inference.export import onnx as onnx_format

    _, servable, config = exported_litert
    directory = export(dataclasses.replace(config, format="onnx"), [PRETRAINED], quiet)
    paths = [directory / onnx_format.FLOAT32_FILE, directory / onnx_format.INT8_FILE]
    float32, int8 = (onnxruntime.InferenceSession(str(path)) for path in paths)
    for shape in ((1, 5), (3, 16)):
        inputs = example_inputs(shape)
        features = {name: value.numpy() for name, value in inputs._asdict().items()}
        wanted = servable.predict(inputs)["replaced_probability"]
        (found,) = float32.run(["replaced_probability"], features)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        (found,) = int8.run(["replaced_probability"], features)
        np.testing.assert_allclose(found, wanted, atol=0.02)
        assert np.any(found != wanted)
    assert (directory / "vocab.txt").exists()
    sizes = [path.stat().st_size for path in paths]
    assert sizes[1] < 0.6 * sizes[0]

    # The product of one unit, which makes the logit, is not quantized.
    products = [node for node in onnx.load(paths[1]).graph.node if node.op_type == "MatMul"]
    assert any("discriminator_predictions" in node.name for node in products)

    # No CPU's sum of two products with uint8 saturates in 16 bits.
    weights = map(onnx.numpy_helper.to_array, onnx.load(paths[1]).graph.initializer)
    kernels = [weight for weight in weights if weight.dtype == np.int8]
    assert max(np.abs(kernel.astype(int)).max() for kernel in kernels) * 255 * 2 < 2**15

    # Fused operators are much faster.
    operators = [node.op_type for node in onnx.load(paths[0]).graph.node]
    assert "LayerNormalization" in operators
    assert not {"Reciprocal", "Sqrt"} & {*operators}
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(directory / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(paths[1]), options)
    optimized = [
        node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node
    ]
    assert "Gelu" in optimized
    assert "Erf" not in optimized
