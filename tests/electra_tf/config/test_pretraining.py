"""Configurations: the authors' defaults, what follows from what, and every refusal."""

import dataclasses
import itertools
import json
import pathlib

import numpy as np
import pytest

from electra_tf.config.choices import (
    EMBEDDING_SHARING,
    GENERATORS,
    OBJECTIVES,
    resolve_choices,
)
from electra_tf.config.encoder import encoder_settings
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.flops.report import count_pretraining
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


def create(**given) -> PretrainingConfig:
    return PretrainingConfig.create(**{"data_dir": "data", "model_name": "m", **given})


NUMBERS = (int, float, int | None, float | None)


@pytest.mark.parametrize(
    "name",
    [field.name for field in dataclasses.fields(PretrainingConfig) if field.type in NUMBERS],
)
def test_every_number_has_a_lower_bound(name):
    """That of a new hyperparameter is in `electra_tf/config/checks.py`."""
    with pytest.raises(UserError, match=name):
        create(**{name: -1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rate": "1e-3"}, "--learning_rate must be a number, not '1e-3'"),
        ({"num_train_steps": 2.5}, "--num_train_steps must be a whole number, not 2.5"),
        ({"num_train_steps": float("nan")}, "--num_train_steps must be a whole number"),
        ({"max_seq_length": True}, "--max_seq_length must be a whole number, not True"),
        ({"do_lower_case": "false"}, "--do_lower_case must be true or false, not 'false'"),
        ({"model_name": 3}, "--model_name must be a string, not 3"),
        ({"model_hparam_overrides": "{}"}, "--model_hparam_overrides must be a JSON object"),
        ({"length_curriculum": "8,16"}, "--length_curriculum must be a list, not '8,16'"),
        ({"length_curriculum": ["8"]}, "--length_curriculum must be a list of whole numbers"),
        ({"length_curriculum": [True]}, "--length_curriculum must be a list of whole numbers"),
        ({"allow_changed_settings": [1]}, "--allow_changed_settings must be a list of strings"),
        ({"model_hparam_overrides": {1: 2}}, "--model_hparam_overrides must be a JSON object"),
        ({"learning_rate": float("inf")}, "--learning_rate must be a number from"),
        ({"mask_prob": float("nan")}, "--mask_prob must be a number from"),
        ({"generator_layers": float("inf")}, "--generator_layers must be a number from"),
        ({"keep_checkpoint_max": 1e35}, "--keep_checkpoint_max must be a whole number from"),
    ],
)
def test_values_of_another_type_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        create(**given)


def test_a_curriculum_that_leaves_a_length_without_steps_is_refused():
    """With the configuration: training removes the files of an earlier debug run."""
    with pytest.raises(UserError, match="leaves no steps for one of the lengths 64, 128"):
        create(length_curriculum=(64,), length_curriculum_share=0.99, debug=True)


def test_an_unknown_hyperparameter_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"'max_seq_lenth'\. Did you mean 'max_seq_length'"):
        create(max_seq_lenth=64)


def test_paths_and_numbers_of_numpy_become_plain_values():
    config = create(
        data_dir=pathlib.Path("data"),
        train_batch_size=np.int64(8),
        mask_prob=np.float32(0.25),
        num_train_steps=10.0,
        gen_weight=2,
        weight_decay_rate=0,
        do_lower_case=np.False_,
        model_hparam_overrides={"hidden_size": np.int64(64)},
        masking="learned",
        masking_hparams={"power": np.float64(0.5)},
    )
    plain = create(
        train_batch_size=8,
        mask_prob=0.25,
        num_train_steps=10,
        gen_weight=2.0,
        weight_decay_rate=0.0,
        do_lower_case=False,
        model_hparam_overrides={"hidden_size": 64},
        masking="learned",
        masking_hparams={"power": 0.5},
    )
    assert config.to_json() == plain.to_json()
    # Optimizers compute with it: 0 would be an integer tensor.
    assert type(config.weight_decay_rate) is float
    assert type(config.masking_hparams["power"]) is float


def test_settings_without_effect_are_warned_of(capsys):
    lengths = {"length_curriculum": (64,), "length_curriculum_share": 0.5}
    create(**lengths, do_train=False, do_eval=True, results_pkl="m.pkl").warn_of_unused()
    run = create(length_curriculum_share=0.5, results_pkl="m.pkl", shard_by="file")
    PretrainingConfig.create(**dataclasses.asdict(run))  # of a model that is loaded
    assert not capsys.readouterr().err
    run.warn_of_unused()
    warned = capsys.readouterr().err
    assert "--length_curriculum_share=0.5 has no effect without --length_curriculum" in warned
    assert "--results_pkl=m.pkl has no effect without --do_eval" in warned
    assert "unsup_results" not in warned
    assert "--shard_by=file has no effect without --strategy=multi_worker" in warned


@pytest.mark.parametrize(
    ("given", "warns"),
    [
        ({"learning_rate": 0.0}, True),
        ({"learning_rate": 0.0, "generator_learning_rate": 1e-3}, False),
        ({"learning_rate": 0.0, "do_train": False, "do_eval": True}, False),
    ],
)
def test_a_learning_rate_of_0_is_warned_of(given, warns, capsys):
    warn_once.cache_clear()
    create(**given).warn_of_unused()
    assert ("--learning_rate=0 changes no weights" in capsys.readouterr().err) == warns


def test_small_has_the_authors_values():
    config = create()
    assert (config.learning_rate, config.train_batch_size, config.max_seq_length) == (
        5e-4,
        128,
        128,
    )
    assert (config.num_train_steps, config.num_warmup_steps) == (1_000_000, 10_000)
    assert (config.gen_weight, config.disc_weight, config.mask_prob) == (1.0, 50.0, 0.15)
    assert config.max_predictions_per_seq == 19
    assert config.embedding_size == 128
    assert config.pretrain_tfrecords == "data/pretrain_tfrecords/pretrain_data.tfrecord*"
    assert config.vocab_file == "data/vocab.txt"
    assert config.model_dir == "data/models/m"
    assert config.results_txt == "data/models/m/results/unsup_results.txt"
    encoder, generator = discriminator_config(config), generator_config(config)
    assert (encoder.hidden_size, encoder.num_hidden_layers) == (256, 12)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (4, 1024)
    assert (generator.hidden_size, generator.num_attention_heads) == (64, 1)
    assert (generator.num_hidden_layers, generator.embedding_size) == (12, 128)


@pytest.mark.parametrize("model_size", ["small", "base", "large"])
def test_sizes_follow_the_authors_rules(model_size):
    width, depth = {"small": (256, 12), "base": (768, 12), "large": (1024, 24)}[model_size]
    widths, depths = (None, 64, 320, 640), (None, 6, 10)
    fractions, unties = (0.25, 0.5, 1 / 3, 1.0), (False, True)
    compared = 0
    for hidden, layers, fraction, untie in itertools.product(widths, depths, fractions, unties):
        overrides = {"hidden_size": hidden, "num_hidden_layers": layers}
        given = {
            "model_size": model_size,
            "model_hparam_overrides": {k: v for k, v in overrides.items() if v},
            "generator_hidden_size": fraction,
            "generator_layers": fraction,
            "untied_generator_embeddings": untie,
        }
        hidden, layers = hidden or width, layers or depth
        # Halves are rounded to even.
        narrow, shallow = round(fraction * hidden), round(fraction * layers)
        if narrow % max(1, narrow // 64):
            with pytest.raises(UserError, match="is not a multiple of its"):
                create(**given)
            continue
        embedding_size = 128 if model_size == "small" else hidden
        for encoder, expected in (
            (discriminator_config(create(**given)), (hidden, layers, embedding_size)),
            (
                generator_config(create(**given)),
                (narrow, shallow, narrow if untie else embedding_size),
            ),
        ):
            units = expected[0]
            sizes = (encoder.hidden_size, encoder.num_hidden_layers, encoder.embedding_size)
            assert sizes == expected
            assert encoder.num_attention_heads == max(1, units // 64)
            assert encoder.intermediate_size == 4 * units
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("mask_prob", [0.1, 0.15, 0.25, 0.4])
@pytest.mark.parametrize("length", [37, 100, 128, 512])
def test_the_limit_of_masked_tokens_follows_rate_and_length(mask_prob, length):
    config = create(mask_prob=mask_prob, max_seq_length=length)
    assert config.max_predictions_per_seq == int((mask_prob + 0.005) * length)


def test_embeddings_are_as_wide_as_base_and_large():
    assert create(model_size="base").embedding_size == 768
    assert create(model_size="large").embedding_size == 1024


def test_debug_shrinks_the_run_but_given_values_win():
    config = create(debug=True, num_train_steps=7)
    assert (config.train_batch_size, config.eval_batch_size, config.num_eval_steps) == (8, 4, 2)
    assert config.num_train_steps == 7
    encoder = discriminator_config(config)
    assert (encoder.num_hidden_layers, encoder.hidden_size) == (3, 144)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (4, 576)
    assert create(debug=True, model_size="base").embedding_size == 144
    own = create(debug=True, model_hparam_overrides={"hidden_size": 128})
    assert discriminator_config(own).num_attention_heads == 2


def test_overrides_reach_the_discriminator_and_leave_the_generators_heads_alone():
    config = create(model_hparam_overrides={"hidden_size": 512, "num_attention_heads": 16})
    assert discriminator_config(config).num_attention_heads == 16
    assert discriminator_config(config).head_size == 32
    assert generator_config(config).num_attention_heads == 2


@pytest.mark.parametrize(
    ("overrides", "heads", "intermediate_size"),
    [
        ({"hidden_size": 48}, 1, 192),
        ({"hidden_size": 192}, 3, 768),
        ({"hidden_size": 48, "num_attention_heads": 4}, 4, 192),
        ({"hidden_size": 48, "intermediate_size": 100}, 1, 100),
        ({"num_hidden_layers": 2}, 12, 3072),
    ],
)
def test_heads_and_intermediate_size_follow_from_the_width(overrides, heads, intermediate_size):
    config = create(
        model_size="base", model_hparam_overrides=overrides, generator_hidden_size=0.5
    )
    encoder, generator = discriminator_config(config), generator_config(config)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (
        heads,
        intermediate_size,
    )
    assert encoder.embedding_size == encoder.hidden_size
    width = overrides.get("hidden_size", 768) // 2
    assert (generator.num_attention_heads, generator.intermediate_size) == (
        max(1, width // 64),
        4 * width,
    )
    counted = count_pretraining("run", config)
    assert counted == count_pretraining(
        "run",
        create(
            model_size="base",
            generator_hidden_size=0.5,
            model_hparam_overrides={
                **overrides,
                "num_attention_heads": heads,
                "intermediate_size": intermediate_size,
            },
        ),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [("tanh", "tanh"), ("GELU", "gelu"), ("", "linear"), (None, "linear")],
)
def test_activations_as_the_authors_spell_them(given, expected):
    config = create(model_hparam_overrides={"hidden_act": given})
    assert discriminator_config(config).hidden_act == expected
    assert generator_config(config).hidden_act == expected


@pytest.mark.parametrize("name", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_a_dropout_rate_of_null_is_none_as_with_the_authors(name):
    config = create(model_hparam_overrides={name: None})
    assert getattr(discriminator_config(config), name) == 0.0
    assert getattr(generator_config(config), name) == 0.0


def test_the_vocabulary_size_may_be_an_override():
    config = create(model_hparam_overrides={"vocab_size": 700})
    assert (config.vocab_size, discriminator_config(config).vocab_size) == (700, 700)
    assert generator_config(config).vocab_size == 700


def test_another_width_than_the_checkpoints_brings_its_own_sizes():
    saved = {
        "model_size": "base",
        "embedding_size": 96,
        "model_hparam_overrides": {
            "hidden_size": 96,
            "num_attention_heads": 6,
            "intermediate_size": 50,
            "hidden_act": "relu",
        },
    }
    same = encoder_settings({"model_hparam_overrides": {"hidden_size": 96}}, saved)
    assert same == saved
    other = encoder_settings({"model_hparam_overrides": {"hidden_size": 48}}, saved)
    assert other["model_hparam_overrides"] == {"hidden_size": 48, "hidden_act": "relu"}
    assert other["embedding_size"] == 48


def test_generator_with_its_own_embeddings_has_them_as_wide_as_itself():
    assert generator_config(create(untied_generator_embeddings=True)).embedding_size == 64
    assert generator_config(create(untied_generator=False)) == discriminator_config(create())


@pytest.mark.parametrize(
    "given",
    [
        *({"objective": name} for name in OBJECTIVES),
        *({"generator_type": name} for name in GENERATORS),
        *({"embedding_sharing": name} for name in EMBEDDING_SHARING),
        {"electric_objective": True, "electra_objective": True},
        {"untied_generator": False, "untied_generator_embeddings": True},
    ],
    ids=str,
)
def test_resolved_choices_do_not_contradict_each_other(given):
    resolved = resolve_choices(given)
    assert resolve_choices(resolved) == resolved


def test_tying_all_weights_leaves_no_embeddings_to_untie():
    config = create(untied_generator=False, untied_generator_embeddings=True)
    assert config == create(untied_generator=False)
    assert config.embedding_sharing == "all"


@pytest.mark.parametrize(
    "given", [{"electra_objective": False}, {"uniform_generator": True}, {"objective": "mlm"}]
)
def test_fractions_do_not_matter_without_an_encoder_of_the_generator(given):
    # A quarter of 832 units has three heads, which do not divide it.
    overrides = {"hidden_size": 832}
    with pytest.raises(UserError, match="a generator of 208 units, which is not a multiple"):
        create(model_hparam_overrides=overrides)
    config = create(model_hparam_overrides=overrides, generator_layers=0.01, **given)
    assert discriminator_config(config).num_attention_heads == 13
    assert generator_config(config) == discriminator_config(config)


def test_json_holds_every_hyperparameter():
    values = json.loads(create(model_hparam_overrides={"hidden_act": "relu"}).to_json())
    assert values["model_hparam_overrides"] == {"hidden_act": "relu"}
    assert create(**values) == create(model_hparam_overrides={"hidden_act": "relu"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data_dir": None}, "--data_dir is required"),
        ({"model_size": "huge"}, "--model_size must be one of small, base, large"),
        (
            {"model_hparam_overrides": {"hidden_sise": 8}},
            "hidden_sise.*[Dd]id you mean.*hidden_size",
        ),
        (
            {"model_hparam_overrides": {"hidden_size": 100, "num_attention_heads": 3}},
            r"hidden_size \(100\) is not a multiple of num_attention_heads \(3\): change one "
            "of them in --model_hparam_overrides",
        ),
        ({"model_hparam_overrides": {"hidden_act": "swish"}}, "hidden_act must be one of"),
        ({"model_hparam_overrides": {"hidden_dropout_prob": 1.0}}, "hidden_dropout_prob"),
        ({"model_hparam_overrides": {"num_hidden_layers": 0}}, "num_hidden_layers"),
        (
            {"model_hparam_overrides": {"initializer_range": "x"}},
            "initializer_range must be a number, not 'x'",
        ),
        (
            {"model_hparam_overrides": {"initializer_range": -1}},
            "initializer_range must be at least 0 and finite, not -1",
        ),
        (
            {"model_hparam_overrides": {"vocab_size": 9}, "vocab_size": 10},
            "--vocab_size=10 contradicts vocab_size 9",
        ),
        (
            {"model_size": "base", "generator_hidden_size": 0.26},
            "--generator_hidden_size=0.26 gives a generator of 200 units.* its 3 attention",
        ),
        ({"do_eval": True}, "both are true: pass --do_train=false to evaluate"),
        ({"do_train": False}, "both are false: pass --do_eval to evaluate"),
        ({"uniform_generator": True, "untied_generator": False}, "--uniform_generator"),
        ({"uniform_generator": True, "electra_objective": False}, "--uniform_generator"),
        (
            {"objective": "electra", "electra_objective": False},
            "--electra_objective=false contradict",
        ),
        (
            {"objective": "mlm", "electra_objective": True},
            "--electra_objective=true contradicts --objective=mlm",
        ),
        (
            {"objective": "electric", "electric_objective": False},
            "--electric_objective=false contradicts --objective=electric",
        ),
        (
            {"electric_objective": True, "two_tower_generator": False},
            "--two_tower_generator=false contradicts --generator_type=two_tower",
        ),
        (
            {"generator_type": "uniform", "uniform_generator": False},
            "--uniform_generator=false contradicts --generator_type=uniform",
        ),
        (
            {"embedding_sharing": "all", "untied_generator": True},
            "--untied_generator=true contradicts --embedding_sharing=all",
        ),
        (
            {"embedding_sharing": "none", "untied_generator_embeddings": False},
            "--untied_generator_embeddings=false contradicts --embedding_sharing=none",
        ),
        ({"objective": "electric", "generator_type": "masked_lm"}, "two_tower"),
        ({"generator_type": "unigram", "two_tower_generator": True}, "--two_tower_generator"),
        ({"embedding_sharing": "gdes", "untied_generator": False}, "--untied_generator=false"),
        ({"embedding_sharing": "gdes", "two_tower_generator": True}, "two_tower"),
        (
            {"embedding_sharing": "all", "untied_generator_embeddings": True},
            "--untied_generator_embeddings=true contradict",
        ),
        ({"masking": "span", "masking_with_replacement": True}, "--masking=token"),
        ({"length_curriculum": (128,)}, "--length_curriculum=128 must be increasing"),
        ({"length_curriculum": (64, 32)}, "--length_curriculum=64,32 must be increasing"),
        ({"mask_prob_end": 1.5}, "--mask_prob_end"),
        ({"generator_learning_rate": -1.0}, "--generator_learning_rate"),
        ({"mask_prob": 1.0}, "--mask_prob"),
        ({"max_seq_length": 513}, "512 position embeddings"),
        ({"generator_layers": 0.01}, "--generator_layers=0.01"),
        ({"train_batch_size": 0}, "--train_batch_size must be positive"),
        ({"eval_batch_size": 2**31}, "--eval_batch_size must be less than 2147483648"),
        ({"max_predictions_per_seq": 2**53}, "--max_predictions_per_seq must be less than"),
        ({"temperature": 0.0}, "--temperature must be at least"),
        ({"learning_rate": -1.0}, "--learning_rate must be at least 0, not -1"),
        ({"precision": "float16"}, "--precision must be one of"),
        ({"triton_kernels": True}, "--triton_kernels needs --jit_compile"),
        (
            {"triton_kernels": True, "jit_compile": True},
            "--triton_kernels needs --precision=mixed_bfloat16 or mixed_float16, not float32",
        ),
        ({"strategy": "many"}, "--strategy must be one of"),
        ({"model_dir": ""}, "--model_dir is empty: pass a path"),
        ({"init_checkpoint": ""}, "--init_checkpoint is empty: pass a path"),
        ({"pretrain_tfrecords": ""}, "--pretrain_tfrecords is empty: pass a path"),
        ({"optimizer": "sgd"}, "--optimizer must be one of adam, lamb, not 'sgd'"),
        ({"gradient_accumulation_steps": 0}, "--gradient_accumulation_steps must be positive"),
        (
            {"gradient_accumulation_steps": 3},
            "--train_batch_size=128 is not a multiple of --gradient_accumulation_steps=3",
        ),
    ],
)
def test_refusals_name_the_flag(given, message):
    with pytest.raises(UserError, match=message):
        create(**given)


def test_a_single_worker_may_read_in_any_order():
    given = {
        "data_dir": "d",
        "model_name": "m",
        "strategy": "multi_worker",
        "workers": ["a:1"],
        "task_index": 0,
        "deterministic_reading": False,
    }
    assert not PretrainingConfig.create(**given).deterministic_reading
    with pytest.raises(UserError, match="--deterministic_reading=false with several workers"):
        PretrainingConfig.create(**given | {"workers": ["a:1", "b:1"]})
