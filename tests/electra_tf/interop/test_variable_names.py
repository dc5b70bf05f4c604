"""Reads the authors' checkpoints of the small reference set."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.interop.variable_names import LoadReport, encoder_variables, named_variables
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.encoder import Encoder
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError
from tests.authors_weights import load_tf1_checkpoint, load_tf1_variables

REFERENCE_DIR = pathlib.Path(__file__).parents[2] / "data/reference/pretraining"
CHECKPOINT = REFERENCE_DIR / "ckpt_default"
QUERY = "electra/encoder/layer_1/attention/self/query/kernel"


def make_config(**changes) -> PretrainingConfig:
    recorded = json.loads((REFERENCE_DIR / "forward_config.json").read_text())
    given = {**recorded["default"]["config"], **changes}
    return PretrainingConfig.create(data_dir="-", model_name="-", **given)


def make_model(**changes) -> PretrainingModel:
    return build_model(make_config(**changes), SpecialTokenIds(cls=2, sep=3, mask=4))


@pytest.fixture(scope="module")
def reader():
    return tf.train.load_checkpoint(str(CHECKPOINT))


def test_every_variable_is_read(reader):
    model = make_model()
    report = load_tf1_checkpoint(CHECKPOINT, model)
    assert report.missing == ()
    assert report.unused == ("global_step",)
    assert len(set(report.matched)) == len(report.matched)
    # The mapping is its own inverse, and leaves no variable out.
    values = {}
    for entry in named_variables(model):
        values.update(entry.split(entry.variable.numpy()))
    assert set(values) == set(report.matched)
    for name, value in values.items():
        np.testing.assert_array_equal(value, reader.get_tensor(name), err_msg=name)
    assert len(named_variables(model)) == len(model.trainable_variables)


def test_query_comes_first_in_the_fused_kernel(reader):
    model = make_model()
    load_tf1_checkpoint(CHECKPOINT, model)
    kernel = model.electra.encoder_layers[1].qkv.kernel.numpy()
    np.testing.assert_array_equal(kernel[:, :64], reader.get_tensor(QUERY))


def test_one_encoder_can_be_read_under_any_scope(reader):
    encoder = Encoder(discriminator_config(make_config()))
    report = load_tf1_checkpoint(CHECKPOINT, encoder)
    assert {name.split("/")[0] for name in report.matched} == {"electra"}
    assert "generator_predictions/dense/kernel" in report.unused

    generator = make_model().generator
    mapping = encoder_variables(generator, "generator", embeddings=False)
    load_tf1_variables(CHECKPOINT, mapping)
    value = generator.encoder_layers[0].attention_output.kernel.numpy()
    name = "generator/encoder/layer_0/attention/output/dense/kernel"
    np.testing.assert_array_equal(value, reader.get_tensor(name))


def test_index_file_and_folder_name_the_same_checkpoint(tmp_path):
    for path in REFERENCE_DIR.glob("ckpt_default.*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt_default"\n')
    model = make_model()
    matched = load_tf1_checkpoint(f"{CHECKPOINT}.index", model).matched
    assert load_tf1_checkpoint(tmp_path, model).matched == matched


def test_other_shapes_are_listed_and_nothing_is_assigned():
    model = make_model(vocab_size=701)
    before = [variable.numpy() for variable in model.trainable_variables]
    with pytest.raises(UserError) as error:
        load_tf1_checkpoint(CHECKPOINT, model)
    message = str(error.value)
    words = "electra/embeddings/word_embeddings is (700, 32) in the checkpoint and (701, 32)"
    assert words in message
    assert "generator_predictions/output_bias is (700,)" in message
    assert message.count(" in the checkpoint and ") == 2
    for variable, value in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_missing_variables_are_listed_or_left_alone():
    model = make_model(untied_generator_embeddings=True)
    with pytest.raises(UserError, match="lacks 5 variables") as error:
        load_tf1_checkpoint(CHECKPOINT, model)
    assert "generator/embeddings/word_embeddings" in str(error.value)
    before = model.generator.embeddings.word_embeddings.numpy()
    report = load_tf1_checkpoint(CHECKPOINT, model, require_all=False)
    assert len(report.missing) == 5
    np.testing.assert_array_equal(model.generator.embeddings.word_embeddings.numpy(), before)


def test_a_report_shows_the_first_names():
    names = tuple("abcdefghi")
    lines = LoadReport(names, names[:8], ()).lines()
    assert lines[0] == "matched     9  a, b, c, d, e, f, g, h, …"
    assert lines[1] == "missing     8  a, b, c, d, e, f, g, h"
    assert lines[2].split() == ["unused", "0"]


@pytest.mark.parametrize("name", ["nothing", ""])
def test_no_checkpoint(tmp_path, name):
    with pytest.raises(UserError, match="checkpoint"):
        load_tf1_checkpoint(tmp_path / name, make_model())


def test_a_truncated_checkpoint(tmp_path):
    (tmp_path / "model.index").write_bytes(b"not an index")
    with pytest.raises(UserError, match="cannot be read"):
        load_tf1_checkpoint(tmp_path / "model", make_model())
