"""Components that a model does not have, and files of an export that are not as written."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.saved_config import load_saved_config
from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import (
    PRETRAINED,
    DiscriminatorServable,
    GeneratorServable,
)
from electra_tf.inference.export.run import load_servable
from electra_tf.inference.export.saved_model import check_checksums, write_checksums
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model, load_model, special_token_ids
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from finetune.export import FINETUNED
from tests.electra_tf.interop.models import format_of, tiny_pretraining_checkpoint
from tests.finetune.conftest import write_model


def test_a_component_that_a_model_lacks_is_refused_with_those_it_has():
    config = types.SimpleNamespace(objective="mlm", generator_type="unigram")
    model = types.SimpleNamespace(config=config, has_discriminator=False, generator=None)
    with pytest.raises(UserError, match=r"--objective=mlm .* no discriminator: export --compo"):
        DiscriminatorServable(model, None, 8)
    with pytest.raises(UserError, match="--generator_type=unigram, which cannot fill in masks"):
        GeneratorServable(model, None, 8, 3)
    # Neither advises what the other refuses.
    with pytest.raises(UserError, match=r": export --component=embeddings$"):
        DiscriminatorServable(model, None, 8)
    with pytest.raises(UserError, match=r": export --component=embeddings$"):
        GeneratorServable(model, None, 8, 3)
    model.has_discriminator = True
    with pytest.raises(UserError, match=r": export --component=discriminator or embeddings$"):
        GeneratorServable(model, None, 8, 3)


def test_longer_texts_than_those_of_pretraining_are_warned_of(tiny_data, tmp_path, capsys):
    write_model(tmp_path / "m", tiny_data, max_seq_length=9)
    config = ExportConfig(
        model_dir=str(tmp_path / "m"), export_dir=tmp_path / "x", component="embeddings"
    )
    load_servable(config, [PRETRAINED], discard)
    assert not capsys.readouterr().err
    told = f"--max_seq_length=12 is longer than the 9 tokens that {tmp_path / 'm'} was trained"
    load_servable(dataclasses.replace(config, max_seq_length=12), [PRETRAINED], discard)
    assert told in capsys.readouterr().err
    # Scoring takes the length of its flags.
    saved = load_saved_config(tmp_path / "m").hyperparameters
    run = dataclasses.replace(PretrainingConfig(**saved), max_seq_length=11)
    load_model(run, load_vocabulary(run.vocab_file), tf.distribute.get_strategy())
    assert "--max_seq_length=11 is longer than the 9 tokens" in capsys.readouterr().err


@pytest.mark.parametrize("objective", ["electra", "electra_15"])
def test_a_discriminator_of_masked_tokens_is_warned_of(tiny_data, tmp_path, capsys, objective):
    write_model(tmp_path / "m", tiny_data, objective=objective)
    warn_once.cache_clear()
    for component in ("discriminator", "generator"):
        config = ExportConfig(
            model_dir=str(tmp_path / "m"), export_dir=tmp_path / "x", component=component
        )
        load_servable(config, [PRETRAINED], discard)
        warns = objective == "electra_15" and component == "discriminator"
        told = "--objective=electra_15 has trained the discriminator on masked tokens alone"
        assert (told in capsys.readouterr().err) == warns


def test_a_discriminator_that_no_loss_trains_is_warned_of(tiny_data, tmp_path, capsys):
    write_model(tmp_path / "m", tiny_data, disc_weight=0.0)
    for component in ("discriminator", "generator", "embeddings"):
        warn_once.cache_clear()
        config = ExportConfig(
            model_dir=str(tmp_path / "m"), export_dir=tmp_path / "x", component=component
        )
        load_servable(config, [PRETRAINED], discard)
        told = "--disc_weight=0 does not train the discriminator, so its answers are meaning"
        assert (told in capsys.readouterr().err) == (component == "discriminator")


@pytest.mark.parametrize("part", ["", "electra/"])
def test_the_length_of_a_converted_model_is_given_or_assumed(
    make_config, tmp_path, capsys, part
):
    """Of a pre-trained model, and of an encoder."""
    shape = {**make_config().model_hparam_overrides, "max_position_embeddings": 200}
    whole = tiny_pretraining_checkpoint(make_config, model_hparam_overrides=shape)
    described = dataclasses.replace(whole.description, hyperparameters={})
    converted = dataclasses.replace(whole, description=described, arrays=whole.part(part))
    format_of("electra_tf").write(converted, str(tmp_path / "m"))
    config = ExportConfig(
        model_dir=str(tmp_path / "m"), export_dir=tmp_path / "x", component="embeddings"
    )
    loaders = [PRETRAINED, FINETUNED]
    assert load_servable(config, loaders, discard).max_seq_length == 128
    said = capsys.readouterr().err
    assert f"{tmp_path / 'm'} was converted, and does not record its sequence len" in said
    assert "truncated to 128 tokens, the default. Pass --max_seq_length, of at most 200" in said
    given = dataclasses.replace(config, max_seq_length=150)
    assert load_servable(given, loaders, discard).max_seq_length == 150
    known = dataclasses.replace(described, trained_positions=190)
    known = dataclasses.replace(converted, description=known)
    format_of("electra_tf").write(known, str(tmp_path / "known"))
    config = dataclasses.replace(config, model_dir=str(tmp_path / "known"))
    assert load_servable(config, loaders, discard).max_seq_length == 190
    assert not capsys.readouterr().err


def test_a_file_of_an_export_that_is_lost_or_changed_is_named(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    graph = tmp_path / "saved_model.pb"
    graph.write_text("graph")
    write_checksums(tmp_path)
    check_checksums(tmp_path)
    graph.write_text("another")
    with pytest.raises(UserError, match=f"^{graph} has changed since the export: export the"):
        check_checksums(tmp_path)
    # It may be the checksums that have changed.
    with pytest.raises(UserError, match=r"its checksum is in .*assets\.extra/checksums\.json"):
        check_checksums(tmp_path)
    graph.unlink()
    with pytest.raises(UserError, match=f"^{graph} cannot be read .No such file.* since the"):
        check_checksums(tmp_path)


@pytest.mark.usefixtures("unfused")
def test_a_generator_predicts_every_token_of_ids_as_at_masks(make_config, tiny_data):
    vocabulary = load_vocabulary(tiny_data / "vocab.txt")
    keras.utils.set_random_seed(0)
    model = build_model(make_config(), special_token_ids(vocabulary))
    servable = GeneratorServable(model, Tokenizer(vocabulary, True, True), 16, 3)
    ids = tf.constant([[2, 5, 4, 6, 4, 3]])
    inputs = EncoderInputs(ids, tf.ones_like(ids), tf.zeros_like(ids))
    of_ids, at_masks = servable.predict(inputs), servable.answer_tokens(inputs)
    assert of_ids["candidate_ids"].shape == (1, 6, 3)
    np.testing.assert_array_equal(at_masks["mask_positions"], [[2, 4]])
    tokens = [
        [vocabulary.tokens[i].encode() for i in row]
        for row in of_ids["candidate_ids"].numpy()[0, [2, 4]]
    ]
    assert at_masks["candidates"].numpy()[0].tolist() == tokens
    np.testing.assert_allclose(
        at_masks["probabilities"], of_ids["probabilities"].numpy()[:, [2, 4]], rtol=1e-5
    )


@pytest.mark.usefixtures("unfused")
def test_electric_tells_noise_by_energies_and_noise_distribution(make_config, tiny_data):
    """As in training, if no token is replaced."""
    vocabulary = load_vocabulary(tiny_data / "vocab.txt")
    keras.utils.set_random_seed(0)
    model = build_model(make_config(objective="electric"), special_token_ids(vocabulary))
    servable = DiscriminatorServable(model, Tokenizer(vocabulary, True, True), 16)
    ids = tf.constant([[2, 5, 4, 6, 7, 3], [2, 9, 8, 3, 0, 0]])
    inputs = EncoderInputs(ids, tf.cast(ids > 0, tf.int32), tf.zeros_like(ids))
    randomness = Randomness(seed=1, step=0, dropout=False)
    masked = model.prepare(inputs._asdict(), randomness=randomness)
    output = model.forward(
        masked, randomness=randomness, sampled_token_ids=masked.masked_lm_ids
    )
    np.testing.assert_array_equal(output.fake_data.inputs.input_ids, ids)
    mask = inputs.input_mask.numpy()
    found = servable.predict(inputs)["replaced_probability"]
    np.testing.assert_allclose(found, output.discriminator.probs * mask, rtol=1e-5)
    # Random energies are near 0, and noise is rare.
    assert np.all(found.numpy()[mask > 0] < 0.1)
