"""A new objective, masking, generator or sharing mode: one class or function and one line."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.pretraining import generator_config
from electra_tf.flops.counting import model_parts
from electra_tf.generators.base import Generator
from electra_tf.generators.masked_lm import MaskedLMGenerator
from electra_tf.generators.sharing import DISCRIMINATOR, GENERATOR, Encoders, Shapes
from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.masking.masked_batch import num_real_tokens
from electra_tf.model.batch_types import LossTerm
from electra_tf.model.heads import get_softmax_output
from electra_tf.model.layers import Linear
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from tests import pretraining_runs
from tests.electra_tf.test_pretraining_model import SPECIAL, features

WITHOUT_DROPOUT = Randomness(0, 0, dropout=False)


@dataclasses.dataclass(frozen=True)
class SegmentHparams:
    """`segment_weight`: of the loss of the segments."""

    segment_weight: float = 1.0


class SegmentDetection(PretrainingModel):
    """ELECTRA, whose encoder also tells to which segment a token belongs."""

    Hparams = SegmentHparams

    def create_layers(self) -> None:
        self.segment_predictions = Linear(
            self.encoder_config.hidden_size,
            1,
            self.encoder_config,
            dtype=self.dtype_policy,
            name="segment_predictions",
        )

    def forward(self, inputs, *, randomness, sampled_token_ids=None):
        output = super().forward(
            inputs, randomness=randomness, sampled_token_ids=sampled_token_ids
        )
        sequence = self.encode(output.fake_data.inputs, randomness)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(inputs.segment_ids, tf.float32),
            logits=tf.cast(self.segment_predictions(sequence)[..., 0], tf.float32),
        )
        weight = num_real_tokens(inputs)
        loss = tf.reduce_sum(losses * tf.cast(inputs.input_mask, tf.float32)) / weight
        term = LossTerm(loss, self.hparams.segment_weight, weight)
        return output._replace(terms={**output.terms, "segment": term})

    def term_weights(self, inputs):
        return {**super().term_weights(inputs), "segment": num_real_tokens(inputs)}


class FirstTokens(MaskingStrategy):
    """Masks the first tokens of each row."""

    def order(self, input_ids, candidates, key, first_example):
        priority = -tf.range(tf.shape(input_ids)[1])
        return MaskingOrder(tf.cast(priority + 0 * input_ids, tf.float32))


class NextToken(Generator):
    """Takes the next entry of the vocabulary for the most likely."""

    def __call__(self, inputs, randomness):
        logits = 20.0 * tf.one_hot(inputs.masked_lm_ids + 1, self.config.vocab_size)
        return get_softmax_output(logits, inputs.masked_lm_ids, inputs.masked_lm_weights)


def share_the_generators_embeddings(shapes: Shapes) -> Encoders:
    """Returns encoders whose embeddings are the generator's."""
    generator = shapes.encoder(GENERATOR)
    return Encoders(shapes.encoder(DISCRIMINATOR, generator.embeddings), generator)


NEW_CHOICES = {
    "objective": (choices.OBJECTIVES, SegmentDetection),
    "masking": (choices.MASKING, FirstTokens),
    "generator_type": (choices.GENERATORS, NextToken),
    "embedding_sharing": (choices.EMBEDDING_SHARING, share_the_generators_embeddings),
}


@pytest.fixture
def add(monkeypatch):
    """Returns a function that adds the line to the table of a flag."""

    def add(flag: str) -> dict[str, str]:
        table, implementation = NEW_CHOICES[flag]
        monkeypatch.setitem(table, "new", f"{__name__}:{implementation.__name__}")
        return {flag: "new"}

    return add


def test_all_four_train_together(add, make_config):
    overrides = {name: value for flag in NEW_CHOICES for name, value in add(flag).items()}
    del overrides["embedding_sharing"]  # of an encoder, which this generator has not
    config = make_config(num_train_steps=2, gradient_accumulation_steps=2, **overrides)
    values = pretraining_runs.train(config, lambda line: None)
    assert np.isfinite(values["segment_loss"])
    assert values["sampled_masked_lm_accuracy"] == 0


def test_a_new_objective_adds_its_layers_and_its_loss(add, make_config):
    config = make_config(objective_hparams={"segment_weight": 3.0}, **add("objective"))
    model = build_model(config, SPECIAL)
    assert type(model) is SegmentDetection
    output = model(features(), randomness=WITHOUT_DROPOUT)
    losses = {name: float(loss) for name, loss in output.losses.items()}
    expected = losses["gen"] + 50 * losses["disc"] + 3 * losses["segment"]
    assert losses["total"] == pytest.approx(expected, rel=1e-5)
    assert any(v.path.startswith("segment_predictions") for v in model.trainable_variables)
    assert [part.name for part in model_parts(config)] == ["generator", "discriminator"]


def test_a_new_masking_masks(add, make_config):
    model = build_model(make_config(**add("masking")), SPECIAL)
    inputs = model.prepare(features(), randomness=WITHOUT_DROPOUT)
    used = inputs.masked_lm_weights.numpy() > 0
    for positions, row in zip(inputs.masked_lm_positions.numpy(), used, strict=True):
        # Position 0 is [CLS].
        np.testing.assert_array_equal(positions[row], np.arange(1, 1 + row.sum()))


def test_a_new_generator_replaces(add, make_config):
    config = make_config(**add("generator_type"))
    model = build_model(config, SPECIAL)
    output = model(features(), randomness=WITHOUT_DROPOUT)
    used = output.inputs.masked_lm_weights.numpy() > 0
    np.testing.assert_array_equal(
        output.fake_data.sampled_token_ids.numpy()[used],
        output.inputs.masked_lm_ids.numpy()[used] + 1,
    )
    assert model.generator is None
    assert [part.name for part in model_parts(config)] == ["discriminator"]


class Unchanged(MaskedLMGenerator):
    """A generator with an encoder, under another name."""


@pytest.mark.parametrize("sharing", choices.EMBEDDING_SHARING)
def test_a_new_generator_with_an_encoder_has_its_size(sharing, monkeypatch, make_config):
    monkeypatch.setitem(choices.GENERATORS, "new", f"{__name__}:Unchanged")
    given = {"embedding_sharing": sharing, "generator_hidden_size": 0.5}
    new = make_config(generator_type="new", **given)
    assert generator_config(new) == generator_config(make_config(**given))
    output = build_model(new, SPECIAL)(features(), randomness=WITHOUT_DROPOUT)
    assert np.isfinite(output.losses["total"])


def test_what_has_no_generator_or_encoder_is_known_without_its_class():
    for name in choices.OBJECTIVES:
        has_generator = choices.load(choices.OBJECTIVES, name).has_generator
        assert has_generator == (name not in choices.WITHOUT_GENERATOR)
    for name in choices.GENERATORS:
        generator = choices.load(choices.GENERATORS, name)
        assert generator.is_constant == (name in choices.WITHOUT_ENCODER)
        assert generator.has_encoder == (name not in choices.WITHOUT_SHARED_ENCODER)


def test_a_new_way_of_sharing_shares(add, make_config):
    model = build_model(make_config(**add("embedding_sharing")), SPECIAL)
    table = model.electra.embeddings.word_embeddings
    assert table is model.generator.embeddings.word_embeddings
    assert table.path.startswith("generator/")
    assert np.isfinite(model(features(), randomness=WITHOUT_DROPOUT).losses["total"])


def test_a_model_refuses_the_configuration_of_another_objective(make_config):
    with pytest.raises(ValueError, match=r"objective=mlm.*MaskedLanguageModel.*build_model"):
        PretrainingModel(make_config(objective="mlm"), SPECIAL)
