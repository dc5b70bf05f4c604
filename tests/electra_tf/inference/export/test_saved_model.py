"""SavedModels of a pre-trained model: what they hold, and what they answer."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import load_servable
from electra_tf.inference.export.saved_model import save_signatures
from electra_tf.text.text_inputs import single_text_inputs, tokenize_with_masks
from tests.electra_tf.inference.export.requests import Server

TEXTS = ["w1 W2 w3", "", "w4 " * 40, "wörd w30 w31"]


@pytest.fixture(scope="module")
def servers(exported) -> dict[str, Server]:
    return {name: Server(path) for name, path in exported.items()}


@pytest.fixture(scope="module")
def model(pretrained_dir, tmp_path_factory):
    """The model in this process, and the inputs of `TEXTS`."""
    config = ExportConfig(model_dir=pretrained_dir, export_dir=tmp_path_factory.mktemp("x"))
    servable = load_servable(config, [PRETRAINED], lambda line: None)
    ids = servable.tokenizer.tokenize(tf.constant(TEXTS))
    inputs = single_text_inputs(servable.vocabulary, ids, servable.max_seq_length)
    return servable._model, servable, inputs


def test_an_export_tells_which_checkpoint_it_is_from(exported, pretrained_dir):
    for path in exported.values():
        described = json.loads((path / "assets.extra" / "description.json").read_text())
        checkpoint = tf.train.latest_checkpoint(pretrained_dir)
        step = checkpoint.rpartition("-")[2]
        assert described["source"] == {"checkpoint": checkpoint, "step": int(step)}


def test_the_discriminator_tells_of_every_token(servers, model):
    network, _, inputs = model
    answer = servers["discriminator"].signature("serving_default")(text=tf.constant(TEXTS))
    sequence = network.electra(*inputs).sequence_output
    wanted = tf.sigmoid(network.discriminator_predictions(sequence)).numpy()
    lengths = answer["num_tokens"].numpy().tolist()
    assert lengths == [5, 2, 16, 5]  # cut at max_seq_length, [CLS] and [SEP] included
    for i, length in enumerate(lengths):
        found = answer["replaced_probability"][i]
        np.testing.assert_allclose(found[:length], wanted[i, :length], atol=1e-5)
        assert not np.any(found[length:])
    tokens = [token.decode() for token in answer["tokens"][0, :5].numpy()]
    assert tokens == ["[CLS]", "w1", "w2", "w3", "[SEP]"]
    assert answer["tokens"][3, 1] == b"[UNK]"


def test_ids_get_the_answers_of_their_texts(servers, model):
    _, _, inputs = model
    for server in servers.values():
        of_texts = server.signature("serving_default")(text=tf.constant(TEXTS))
        of_ids = server.signature("tokens")(**inputs._asdict())
        assert of_texts.keys() == of_ids.keys()
        for name, value in of_texts.items():
            if value.dtype == tf.float32:
                np.testing.assert_allclose(of_ids[name], value, atol=1e-5)
            else:
                np.testing.assert_array_equal(of_ids[name], value)


def test_the_generator_fills_masks(servers, model):
    network, servable, _ = model
    texts = ["w1 [MASK] w3 [MASK]", "w1", "[MASK][MASK]w5[MASK]"]
    answer = servers["generator"].signature("serving_default")(text=tf.constant(texts))
    assert answer["num_masks"].numpy().tolist() == [2, 0, 3]
    assert answer["mask_positions"].numpy().tolist() == [[2, 4, 0], [0, 0, 0], [1, 2, 4]]
    ids = tokenize_with_masks(servable.tokenizer, tf.constant(texts))
    inputs = single_text_inputs(servable.vocabulary, ids, 16)
    sequence = network.generator(*inputs).sequence_output
    table = network.generator.embeddings.word_embeddings
    logits = network.generator_predictions(sequence, table)
    probabilities = tf.nn.softmax(logits).numpy()[2, 4]
    best = np.argsort(-probabilities)[:3]
    tokens = [servable.vocabulary.tokens[i] for i in best]
    assert [token.decode() for token in answer["candidates"][2, 2].numpy()] == tokens
    np.testing.assert_allclose(answer["probabilities"][2, 2], probabilities[best], atol=1e-6)
    assert not np.any(answer["probabilities"][1])
    assert set(answer["candidates"][1].numpy().ravel()) == {b""}


def test_a_sentence_is_the_mean_of_its_tokens(servers, model):
    network, _, inputs = model
    answer = servers["embeddings"].signature("serving_default")(text=tf.constant(TEXTS))
    sequence = network.electra(*inputs).sequence_output.numpy()
    np.testing.assert_allclose(answer["token_embeddings"][0, :5], sequence[0, :5], atol=1e-5)
    mean = sequence[0, :5].mean(axis=0)
    np.testing.assert_allclose(answer["sentence_embedding"][0], mean, atol=1e-5)


def test_a_row_of_too_many_ids_is_refused_with_the_limit(servers):
    ids = tf.ones([1, 17], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="may have at most 16 tokens"):
        servers["discriminator"].signature("tokens")(
            input_ids=ids, input_mask=ids, segment_ids=tf.zeros_like(ids)
        )


@pytest.mark.parametrize("name", ["input_mask", "segment_ids"])
@pytest.mark.parametrize("shape", [[1, 5], [2, 1]])
def test_inputs_of_different_shapes_are_refused(servers, name, shape):
    """They would be broadcast, to answers for other rows."""
    ids = tf.ones([2, 5], tf.int32)
    inputs = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    inputs[name] = tf.ones(shape, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same shape"):
        servers["discriminator"].signature("tokens")(**inputs)


@pytest.mark.parametrize("name", ["input_mask", "segment_ids"])
@pytest.mark.parametrize("value", [-1, 2])
def test_values_without_a_meaning_are_refused(servers, name, value):
    """They would be answered, but as nothing that the model was trained on."""
    ids = tf.ones([2, 5], tf.int32)
    inputs = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    inputs[name] = tf.concat([ids[:, 1:], ids[:, :1] * value], axis=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be from 0 to 1"):
        servers["discriminator"].signature("tokens")(**inputs)


def test_graphs_hold_what_they_need(exported):
    """No XLA, which a server may lack, no gradients, and of the weights only those read.

    TensorFlow warns of custom gradients when it loads a graph.
    """
    for name, path in exported.items():
        content = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        for function in content.meta_graphs[0].graph_def.library.function:
            assert not function.attr["_XlaMustCompile"].b, function.signature.name
            assert not any("_gradient_op_type" in node.attr for node in function.node_def)
        saved = {key for key, _ in tf.train.list_variables(str(path / "variables/variables"))}
        assert not any("adam" in key for key in saved)
        assert (path / "variables").is_dir(), name
    sizes = {
        name: (path / "variables" / "variables.data-00000-of-00001").stat().st_size
        for name, path in exported.items()
    }
    assert sizes["generator"] < sizes["embeddings"] < sizes["discriminator"]


def test_saved_model_cli_lists_the_signatures(exported):
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tensorflow.python.tools.saved_model_cli import main; main()",
            "show",
            "--dir",
            str(exported["generator"]),
            "--tag_set",
            "serve",
            "--signature_def",
            "serving_default",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    shown = " ".join(result.stdout.split())
    assert "inputs['text'] tensor_info: dtype: DT_STRING shape: (-1) name:" in shown
    for name in ("tokens", "num_tokens", "candidates", "probabilities", "mask_positions"):
        assert f"outputs['{name}']" in result.stdout


def test_weights_are_saved_in_the_order_in_which_graphs_read_them(tmp_path):
    variables = [tf.Variable(float(value)) for value in range(16)]
    read = [variables[index] for index in np.random.default_rng(0).permutation(16)]

    @tf.function(autograph=False)
    def total():
        return {"total": tf.add_n([variable.read_value() for variable in read])}

    save_signatures({"serving_default": total.get_concrete_function()}, tmp_path / "1")
    prefix = str(tmp_path / "1" / "variables" / "variables")
    saved = [
        float(tf.train.load_variable(prefix, f"weights/{index}/.ATTRIBUTES/VARIABLE_VALUE"))
        for index in range(16)
    ]
    assert saved == [float(variable) for variable in read]
