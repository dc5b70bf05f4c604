"""Model FLOPs, against the kernels of real models and numbers worked out by hand."""

import dataclasses
import math

import pytest

from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.flops.counting import (
    encoder_model_flops,
    finetuning_model_flops_per_step,
    model_flops_by_phase,
    model_flops_per_step,
    train_flops_per_step,
)
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model_builder import build_model

TINY = {
    "model_hparam_overrides": {
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 16,
    },
    "embedding_size": 6,
    "vocab_size": 30,
    "max_seq_length": 10,
    "max_predictions_per_seq": 4,
    "train_batch_size": 5,
    "generator_hidden_size": 0.5,
}


def create(**given) -> PretrainingConfig:
    return PretrainingConfig.create(**{"data_dir": "data", "model_name": "m", **TINY, **given})


def kernels(layers) -> int:
    return sum(math.prod(layer.kernel.shape) for layer in layers)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"untied_generator": False},
        {"untied_generator_embeddings": True},
        {"uniform_generator": True},
        {"electra_objective": False},
        {"masking": "span", "span_boundary_weight": 0.5},
        {"objective": "mlm", "masking": "span", "span_boundary_weight": 0.5},
    ],
    ids=str,
)
def test_every_kernel_of_the_model_is_multiplied_once_forward_and_twice_backward(given):
    config = create(**given)
    model = build_model(config, SpecialTokenIds(2, 3, 4))
    length, positions = config.max_seq_length, config.max_predictions_per_seq
    products = 0
    encoders = []
    if config.electra_objective:
        head = model.discriminator_predictions
        products += length * kernels([head.dense, head.dense_1])
        encoders.append(model.electra)
    if model.generator is not None:
        head = model.generator_predictions
        words = math.prod(model.generator.embeddings.word_embeddings.shape)
        products += positions * (kernels([head.dense]) + words)
        if config.span_boundary_weight:
            head = model.generator_span_boundary
            products += positions * (kernels([head.dense, head.dense_1]) + words)
        encoders.append(model.generator)
    for encoder in encoders:
        products += length * kernels(encoder.linears)
        attention = 2 * length * length * encoder.config.hidden_size
        products += encoder.config.num_hidden_layers * attention
    assert model_flops_per_step(config) == 3 * 5 * 2 * products


def test_electra_small_is_nine_gigaflops_a_sequence():
    config = PretrainingConfig.create(data_dir="data", model_name="m")
    # Worked out by hand: 12 * (12 * 256^2 + 2 * 128 * 256) + 128 * 256 for each of 128
    # tokens, 12 * (12 * 64^2 + 2 * 128 * 64) + 128 * 64 for the generator, 256 * 257 for
    # the discriminator's head, and 128 * (64 + 30522) at 19 positions.
    discriminator = 128 * (12 * (786_432 + 65_536) + 32_768 + 65_792)
    generator = 128 * (12 * (49_152 + 16_384) + 8_192) + 19 * 128 * 30_586
    assert model_flops_per_step(config) == 128 * 6 * (discriminator + generator)
    assert model_flops_per_step(config) / 128 == pytest.approx(9.0e9, rel=0.01)


def test_each_of_two_stages_has_the_flops_of_what_it_runs():
    shape = {"embedding_size": 0, "embedding_sharing": "none", "generator_hidden_size": 1.0}
    encoder = {"num_attention_heads": 1, "intermediate_size": 48}
    settings = {
        **shape,
        "model_hparam_overrides": {**TINY["model_hparam_overrides"], **encoder},
        "objective_hparams": {"generator_share": 0.25},
        "num_train_steps": 8,
    }
    config = create(objective="two_stage", **settings)
    of_mlm = model_flops_per_step(create(**shape | settings, objective="mlm"))
    encoder_flops = encoder_model_flops(discriminator_config(config), 10)
    head = 2 * 10 * (12 * 12 + 12)
    # The frozen generator runs forward alone.
    second = of_mlm // 3 + 3 * 5 * (encoder_flops + head)
    assert model_flops_by_phase(config) == {(0, 10): of_mlm, (1, 10): second}
    assert model_flops_per_step(config) == 0.25 * of_mlm + 0.75 * second


def test_stages_have_the_flops_of_their_own_lengths():
    """The first one of two is shorter rows for the most part."""
    config = create(
        objective="two_stage",
        embedding_sharing="none",
        generator_hidden_size=1.0,
        embedding_size=12,
        model_hparam_overrides={**TINY["model_hparam_overrides"], "num_attention_heads": 1},
        length_curriculum=(5,),
        length_curriculum_share=0.75,
        num_train_steps=8,
    )
    # Of 8 steps, 4 are of the generator; the first 6 have 5 tokens.
    steps = {(0, 5): 4, (1, 5): 2, (1, 10): 2}
    by_phase = model_flops_by_phase(config)
    expected = sum(count * by_phase[phase] for phase, count in steps.items()) / 8
    assert model_flops_per_step(config) == expected
    first, long = (
        train_flops_per_step(
            dataclasses.replace(
                config, length_curriculum=(), max_seq_length=n, max_predictions_per_seq=p
            )
        )
        for n, p in ((5, 2), (10, 4))
    )
    assert min(first, long) < train_flops_per_step(config) < max(first, long)


def test_finetuning_is_three_times_the_encoder():
    encoder = discriminator_config(create())
    assert finetuning_model_flops_per_step(
        encoder, batch_size=7, seq_length=9
    ) == 21 * encoder_model_flops(encoder, 9)


def test_frozen_layers_run_forward_alone():
    encoder = dataclasses.replace(discriminator_config(create()), num_hidden_layers=12)
    one, two = (
        encoder_model_flops(dataclasses.replace(encoder, num_hidden_layers=number), 9)
        for number in (1, 2)
    )
    layer = two - one
    projection = one - layer
    assert projection > 0
    for num_frozen, passes in ((0, 36), (5, 26), (12, 12)):
        assert finetuning_model_flops_per_step(
            encoder, batch_size=7, seq_length=9, num_frozen_layers=num_frozen
        ) == 7 * (projection + passes * layer)
