"""FLOPs of steps in the paper's counting, against the authors' numbers and each other."""

import dataclasses
import json
import pathlib

import pytest

from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.flops.counting import (
    SAMPLING,
    Transformer,
    finetuning_flops_per_step,
    model_flops_by_phase,
    model_flops_per_step,
    train_flops_by_part,
    train_flops_per_step,
)

RECORDED = json.loads(
    (pathlib.Path(__file__).parents[2] / "data/reference/pretraining/flops.json").read_text()
)["train_flops_printed_by_the_script"]
# The paper's tables predict 15.625 % of the tokens.
SMALL = {"max_predictions_per_seq": 20}
BASE = {
    "model_size": "base",
    "max_seq_length": 512,
    "train_batch_size": 256,
    "max_predictions_per_seq": 80,
    "generator_hidden_size": 1 / 3,
}


def create(**given) -> PretrainingConfig:
    return PretrainingConfig.create(**{"data_dir": "data", "model_name": "m", **given})


@pytest.mark.parametrize(
    ("given", "steps", "name"),
    [(SMALL, 1_000_000, "electra_small"), (BASE, 766_000, "electra_base")],
)
def test_the_papers_runs_cost_what_the_paper_counts(given, steps, name):
    parts = train_flops_by_part(create(**given))
    assert list(parts) == [
        "generator",
        "generator head",
        "sampling",
        "discriminator",
        "discriminator head",
    ]
    # The authors do not count the sampling.
    without = sum(parts.values()) - parts["sampling"]
    assert steps * without == pytest.approx(RECORDED[name], rel=1e-12)
    assert train_flops_per_step(create(**given)) == sum(parts.values())


def test_a_length_curriculum_counts_each_length_by_its_steps():
    common = {"num_train_steps": 1000}
    short = create(max_seq_length=128, max_predictions_per_seq=20, **common)
    long = create(max_seq_length=512, max_predictions_per_seq=80, **common)
    both = dataclasses.replace(long, length_curriculum=(128,), length_curriculum_share=0.9)
    for flops in (train_flops_per_step, model_flops_per_step):
        expected = 0.9 * flops(short) + 0.1 * flops(long)
        assert flops(both) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "steps", "name"),
    [
        (SMALL, 1_450_000, "bert_small"),
        ({**BASE, "generator_hidden_size": 1.0}, 1_000_000, "bert_base"),
    ],
)
def test_masked_language_models_cost_what_bert_costs(given, steps, name):
    parts = train_flops_by_part(create(**given, electra_objective=False))
    assert list(parts) == ["masked LM", "masked LM head"]
    assert steps * sum(parts.values()) == pytest.approx(RECORDED[name], rel=1e-12)


def test_samples_are_drawn_at_the_masked_positions_and_nothing_flows_back():
    config = create(train_batch_size=3, max_predictions_per_seq=7, vocab_size=1000)
    assert train_flops_by_part(config)["sampling"] == 3 * 7 * 1000 * SAMPLING


def test_a_uniform_generator_costs_its_samples_only():
    parts = train_flops_by_part(create(uniform_generator=True))
    trained = train_flops_by_part(create())
    assert list(parts) == ["sampling", "discriminator", "discriminator head"]
    assert parts == {name: trained[name] for name in parts}


def test_a_tied_generator_is_as_large_as_the_discriminator():
    parts = train_flops_by_part(create(untied_generator=False))
    assert parts["generator"] == parts["discriminator"]


def test_only_masked_positions_are_predicted():
    few, many = (
        train_flops_by_part(create(max_predictions_per_seq=count)) for count in (10, 20)
    )
    assert many["generator head"] == pytest.approx(2 * few["generator head"], rel=1e-12)
    assert many["generator"] == few["generator"]


def test_span_boundaries_are_predicted_by_a_head_of_their_own():
    given = {"train_batch_size": 3, "max_predictions_per_seq": 7, "vocab_size": 1000}
    plain, with_spans = (
        train_flops_by_part(create(**given, masking="span", span_boundary_weight=weight))
        for weight in (0.0, 0.5)
    )
    # The outputs before and after the span and an embedding of the place, of 64, 64 and 200
    # units, are read by layers of 64 and 128. Of each unit there are a bias, GELU (8) and
    # LayerNorm (5), of each word the sums of the softmax (7).
    head = 2 * (328 * 64 + 64 * 128 + 128 * 1000) + 14 * (64 + 128) + 7 * 1000
    differing = {name: with_spans[name] - plain[name] for name in plain}
    assert {name for name, more in differing.items() if more} == {"generator head"}
    assert differing["generator head"] == pytest.approx(2 * 3 * 7 * head, rel=1e-9)


@pytest.mark.parametrize("objective", ["electra", "mlm"])
def test_learned_masking_scores_all_tokens_and_learns_at_the_masked_ones(objective):
    given = {"train_batch_size": 3, "max_seq_length": 20, "max_predictions_per_seq": 7}
    config = create(**given, objective=objective, masking="learned")
    plain, learned = (
        train_flops_by_part(create(**given, objective=objective, masking=masking))
        for masking in ("token", "learned")
    )
    # The embeddings of three tokens, of 128 units, are read by a layer of 128. Of each of its
    # units there are a bias, GELU (8) and the product with the output's weight (2).
    head = 2 * 3 * 128 * 128 + 11 * 128
    assert learned == {"masking head": 3 * (20 + 2 * 7) * head, **plain}
    products = 2 * (3 * 128 * 128 + 128) * (20 + 3 * 7)
    of_tokens = model_flops_per_step(dataclasses.replace(config, masking="token"))
    assert model_flops_per_step(config) == of_tokens + 3 * products


def test_learned_masking_does_not_learn_from_a_frozen_generator():
    shape = {"generator_hidden_size": 1.0, "generator_layers": 1.0, "embedding_size": 256}
    given = {"num_train_steps": 4, "embedding_sharing": "none", "train_batch_size": 3, **shape}
    config = create(**given, objective="two_stage", masking="learned")
    learned, plain = (
        model_flops_by_phase(each)
        for each in (config, dataclasses.replace(config, masking="token"))
    )
    products = 3 * 2 * (3 * 256 * 128 + 128)
    more = {stage: learned[stage, 128] - plain[stage, 128] for stage in (0, 1)}
    assert more == {0: products * (128 + 3 * 19), 1: products * 128}


def test_finetuning_is_the_encoder_there_and_back():
    encoder = discriminator_config(create(model_size="base"))
    model = Transformer(hidden_size=768, num_hidden_layers=12, seq_length=64)
    assert (
        finetuning_flops_per_step(encoder, batch_size=8, seq_length=64)
        == 16 * model.inference()
    )


@pytest.mark.parametrize("num_frozen", [0, 5, 12])
def test_frozen_layers_have_no_way_back(num_frozen):
    encoder = discriminator_config(create())
    model = Transformer.of(encoder, 64)
    assert finetuning_flops_per_step(
        encoder, batch_size=8, seq_length=64, num_frozen_layers=num_frozen
    ) == 8 * (
        model.embeddings() + (2 * 12 - num_frozen) * model.layer() + 2 * model.binary_head()
    )


def test_a_lookup_of_embeddings_can_be_counted_as_none():
    dense = Transformer(
        hidden_size=8, num_hidden_layers=1, seq_length=4, vocab_size=100, embedding_size=6
    )
    looked_up = dataclasses.replace(dense, dense_embedding_lookup=False)
    assert dense.embeddings() - looked_up.embeddings() == 4 * 2 * 6 * 100
