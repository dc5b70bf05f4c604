"""The comparison of given settings with recorded ones."""

import dataclasses
import json

import pytest

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import EVALUATION, NOTHING, TRAINING
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.recorded_settings import (
    changed_settings,
    comparable_settings,
    influences,
)
from electra_tf.config.resumption import (
    _METRIC_SETTINGS,
    _REPLACEMENT_SETTINGS,
    WORDS,
    changed_metrics,
    changes_of_resumed_run,
    check_allowed_names,
    check_recorded_replacements,
    describe_changes,
    unrecorded_settings,
)
from electra_tf.util.errors import UserError
from finetune.config.finetuning_fields import FinetuningFields


def settings(**given) -> dict:
    config = PretrainingConfig.create(data_dir="data", model_name="m", **given)
    return dataclasses.asdict(config)


def changes(recorded: dict, given: dict) -> dict[str, tuple]:
    recorded = json.loads(json.dumps(recorded))
    found = changed_settings(PretrainingConfig, recorded, given)
    return {change.name: (change.recorded, change.given, change.influence) for change in found}


def test_what_is_the_same_in_other_words_is_no_change():
    explicit = {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
    assert not changes(
        settings(model_hparam_overrides={"hidden_size": 128}, objective="mlm"),
        settings(model_hparam_overrides=explicit, electra_objective=False),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"seed": 7}, {"seed": (42, 7, TRAINING)}),
        ({"log_steps": 5}, {"log_steps": (200, 5, NOTHING)}),
        ({"num_eval_steps": 5}, {"num_eval_steps": (100, 5, EVALUATION)}),
        ({"length_curriculum": (64,)}, {"length_curriculum": ([], [64], TRAINING)}),
        (
            {"model_hparam_overrides": {"num_attention_heads": 8}},
            {"num_attention_heads": (4, 8, TRAINING)},
        ),
        ({"objective": "electra_15"}, {"objective": ("electra", "electra_15", TRAINING)}),
    ],
)
def test_a_change_has_its_name_values_and_influence(given, expected):
    assert changes(settings(), settings(**given)) == expected


def test_a_setting_that_the_record_lacks_had_its_default():
    recorded = settings()
    del recorded["masking"], recorded["log_steps"]
    assert not changes(recorded, settings())
    assert changes(recorded, settings(masking="span")).keys() == {"masking"}
    assert not changes(recorded, {**settings(), "data": {"128": "digest"}})


def test_checkpoints_without_a_description_are_refused(tmp_path):
    config = PretrainingConfig.create(data_dir=str(tmp_path), model_name="m")
    with pytest.raises(UserError, match=r"models/m has checkpoints but no config\.json"):
        changes_of_resumed_run(config, dataclasses.asdict(config))


def test_another_number_of_workers_that_read_their_own_files_is_refused(tmp_path):
    config = PretrainingConfig.create(data_dir=str(tmp_path), model_name="m")
    settings = {**dataclasses.asdict(config), "shard_by": "file"}
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)

    def record(**given: int) -> None:
        content = {"hyperparameters": {**settings, **given}, "variables": {}}
        (folder / "config.json").write_text(json.dumps(content))

    record(file_readers=2)
    assert changes_of_resumed_run(config, {**settings, "file_readers": 2}) == []
    with pytest.raises(UserError, match=r"file_readers: 2 before, 3 now"):
        changes_of_resumed_run(config, {**settings, "file_readers": 3})
    allowing = dataclasses.replace(config, allow_changed_settings=("file_readers",))
    check_allowed_names(allowing)
    assert len(changes_of_resumed_run(allowing, {**settings, "file_readers": 3})) == 1
    record()  # by an older version
    assert changes_of_resumed_run(config, {**settings, "file_readers": 3}) == []


def test_what_older_versions_did_not_record_is_said(tmp_path):
    config = PretrainingConfig.create(data_dir=str(tmp_path), model_name="m")
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    content = {"hyperparameters": dataclasses.asdict(config), "variables": {}}
    (folder / "config.json").write_text(json.dumps(content))
    given = {**dataclasses.asdict(config), "data": {"128": "digest"}}
    assert changes_of_resumed_run(config, given) == []
    # They had no word list.
    assert changes_of_resumed_run(config, {**given, "words": None}) == []
    with pytest.raises(UserError, match=r"words: None before, 'digest' now"):
        changes_of_resumed_run(config, {**given, "words": "digest"})
    assert describe_changes([]) == []
    (line,) = unrecorded_settings(config)
    assert line.endswith("does not record data, vocabulary: assumed unchanged")


@pytest.mark.parametrize("is_trained_since", [False, True])
def test_how_a_converted_model_was_trained_is_unknown(tmp_path, is_trained_since):
    """Its record has defaults, which nobody has trained with."""
    recorded = settings() | {"model_name": "converted", "data_dir": "."}
    if is_trained_since:  # in the data folder, under the name that conversions have
        recorded |= {"data": {"128": "digest"}, "vocabulary": "digest"}
    folder = tmp_path / "models" / "converted"
    folder.mkdir(parents=True)
    content = {"hyperparameters": recorded, "variables": {}}
    (folder / "config.json").write_text(json.dumps(content))

    def config(**given) -> PretrainingConfig:
        return PretrainingConfig.create(
            data_dir=str(tmp_path), model_name="converted", max_seq_length=512, **given
        )

    other = config(mask_prob=0.25, precision="mixed_bfloat16")
    given = {**dataclasses.asdict(other), "words": "digest"}
    if is_trained_since:
        assert unrecorded_settings(other) == []
        assert "mask_prob: 0.15 before, 0.25 now" in changed_metrics(other, None)
        with pytest.raises(UserError, match=r"--method=electra needs the settings"):
            check_recorded_replacements(other, "--method=electra")
        with pytest.raises(UserError, match=r"mask_prob: 0\.15 before"):
            changes_of_resumed_run(other, given)
        return
    (line,) = unrecorded_settings(other)
    assert line == "config.json, of a converted model, does not record how it was trained"
    assert changed_metrics(other, None) == []
    check_recorded_replacements(other, "--method=electra")
    assert changes_of_resumed_run(other, given) == []
    # What the model is, and what its moments are of, is known.
    other = config(model_hparam_overrides={"hidden_act": "relu"}, do_lower_case=False)
    with pytest.raises(UserError, match=r"do_lower_case: True .*\n  hidden_act: 'gelu'"):
        changes_of_resumed_run(other, dataclasses.asdict(other))
    other = config(optimizer="lamb")
    with pytest.raises(UserError, match="has no state of this optimizer"):
        changes_of_resumed_run(other, dataclasses.asdict(other))


# What determines the weights, but not what an evaluation of given weights measures, nor which
# tokens are replaced.
WEIGHTS_ALONE = {
    *(field.name for field in dataclasses.fields(EncoderConfig)),
    "clip_norm",
    "deterministic_reading",
    "do_lower_case",
    "embedding_sharing",
    "generator_hidden_size",
    "generator_layers",
    "generator_learning_rate",
    "learning_rate",
    "length_curriculum",
    "length_curriculum_share",
    "lr_decay_power",
    "max_seq_length",
    "num_train_steps",
    "num_warmup_steps",
    "optimizer",
    "seed",
    "shard_by",
    "shuffle_buffer_size",
    "strip_accents",
    "train_batch_size",
    "weight_decay_rate",
}


def test_every_setting_of_training_changes_metrics_and_replacements_or_is_known_not_to():
    """A new hyperparameter is in the lists of `electra_tf/config/resumption.py`, or here."""
    training = {n for n, kind in influences(PretrainingConfig).items() if kind == TRAINING}
    metrics, replacements = {*_METRIC_SETTINGS} - {WORDS}, {*_REPLACEMENT_SETTINGS}
    # Evaluations have neither schedule.
    assert replacements - metrics == {"mask_prob_end", "temperature_end"}
    # The others change the losses.
    losses = {"disc_weight", "gen_weight", "precision", "span_boundary_weight"}
    assert metrics - replacements == losses
    assert training - metrics - replacements == WEIGHTS_ALONE


def test_whatever_declares_nothing_influences_the_training():
    for config_class in (PretrainingConfig, FinetuningFields):
        kinds = influences(config_class)
        for name in ("seed", "learning_rate", "max_seq_length", "hidden_size", "precision"):
            assert kinds[name] == TRAINING
        for name in ("device", "iterations_per_loop", "data_dir"):
            assert kinds[name] == NOTHING


def test_only_settings_can_be_allowed_to_change():
    config = PretrainingConfig.create(
        data_dir="data", model_name="m", allow_changed_settings=("data", "learning_rates")
    )
    with pytest.raises(UserError, match=r"unknown setting 'learning_rates'.*'learning_rate'"):
        check_allowed_names(config)


def test_settings_without_a_model_are_compared_as_they_are():
    assert comparable_settings(PretrainingConfig, {"seed": 7, "length_curriculum": (8,)}) == {
        "seed": 7,
        "length_curriculum": [8],
    }
