"""Training through its real entry function, on records that the test writes."""

import dataclasses
import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import model_builder
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.resumption import changed_metrics, check_recorded_replacements
from electra_tf.model_builder import model_class
from electra_tf.pretraining import run
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution import bfloat16, context
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.monitoring.run_info import read_run_info, write_run_info
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from flags.records import held_out_records
from tests import pretraining_runs
from tests.conftest import make_record, tiny_settings
from tests.electra_tf.objectives.numpy_losses import TWO_STAGE
from tests.training_process import TrainingProcess

pytestmark = pytest.mark.usefixtures("own_graphs")

TRAINING_METRICS = {
    "step",
    "steps_per_second",
    "sequences_per_second",
    "tokens_per_second",
    "seconds_left",
    "loss",
    "gen_loss",
    "disc_loss",
    "masked_lm_accuracy",
    "sampled_masked_lm_accuracy",
    "disc_auc",
    "disc_accuracy",
    "disc_precision",
    "disc_recall",
    "replaced_share",
    "learning_rate",
    "gradient_norm",
}


def quiet(message: str) -> None:
    """Says nothing."""


@pytest.mark.parametrize(("workers", "refused"), [(["a:1"], False), (["a:1", "b:1"], True)])
def test_several_workers_of_the_environment_must_read_alike(
    make_config, monkeypatch, workers, refused
):
    """A single one, such as a cluster manager's job of one host, shares no batches."""
    config = make_config(strategy="multi_worker", deterministic_reading=False)
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))

    def stop(config: PretrainingConfig) -> None:
        raise RuntimeError("accepted")

    monkeypatch.setattr(run, "load_checked_vocabulary", stop)
    error = (UserError, "--shard_by=file") if refused else (RuntimeError, "accepted")
    with pytest.raises(error[0], match=error[1]):
        run.train(config, records=None)


def log_records(config) -> list[dict]:
    lines = (pathlib.Path(config.model_dir) / "train_log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def weights_of(config, step: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(f"{config.model_dir}/ckpt-{step}")
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE") and "save_counter" not in name
    }


def test_trains_logs_evaluates_and_keeps_the_newest_checkpoints(make_config, tiny_data, capsys):
    config = make_config(
        keep_checkpoint_max=2, eval_tfrecords=str(tiny_data / "pretrain_tfrecords" / "*")
    )
    values = pretraining_runs.train(config)

    records = log_records(config)
    train = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in train] == [2, 4, 6]
    assert train[0].keys() >= TRAINING_METRICS
    assert [r["step"] for r in records if r["kind"] == "eval"] == [2, 4, 6]
    for record in train:
        # The objective is made of its two terms (paper, section 2).
        expected = record["gen_loss"] + 50 * record["disc_loss"]
        assert record["loss"] == pytest.approx(expected, rel=1e-3)
    assert train[0]["learning_rate"] == pytest.approx(1e-3 * (1 - 2 / 6))
    assert train[-1]["learning_rate"] == 0
    folder = pathlib.Path(config.model_dir)
    steps = sorted(int(p.stem.split("-")[1]) for p in folder.glob("ckpt-*.index"))
    assert steps == [4, 6]
    assert (folder / "vocab.txt").read_text() == (tiny_data / "vocab.txt").read_text()
    assert list((folder / "tensorboard").glob("events*"))
    assert values["loss"] > 0
    printed = capsys.readouterr().out
    assert "6/6" in printed
    assert "ckpt-6" in printed


ALL_OPTIONS = {
    "precision": "mixed_float16",
    "optimizer": "lamb",
    "gradient_accumulation_steps": 2,
    "rematerialize": True,
}


@pytest.mark.parametrize("overrides", [{}, ALL_OPTIONS], ids=["adam", "lamb_float16"])
def test_a_resumed_run_equals_an_uninterrupted_one(make_config, tmp_path, overrides):
    whole = make_config(model_dir=str(tmp_path / "whole"), **overrides)
    pretraining_runs.train(whole, quiet)
    resumed = make_config(model_dir=str(tmp_path / "resumed"), **overrides)
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    # As if the run had been killed after its first checkpoint and some more steps.
    for path in (tmp_path / "resumed").glob("ckpt-[46]*"):
        path.unlink()
    state = '{}: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-2"\n'
    (tmp_path / "resumed" / "checkpoint").write_text(state.format("model_checkpoint_path"))
    pretraining_runs.train(resumed, quiet)

    expected, actual = weights_of(whole, 6), weights_of(resumed, 6)
    assert expected.keys() == actual.keys()
    assert len(expected) > 60
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
    steps = [record["step"] for record in log_records(resumed) if record["kind"] == "train"]
    assert steps == [2, 4, 6]


@pytest.fixture(scope="module")
def run_of_two_steps(tiny_data, tmp_path_factory) -> pathlib.Path:
    """The folder of a run that has ended."""
    settings = tiny_settings(tiny_data, tmp_path_factory.mktemp("ended"))
    config = PretrainingConfig.create(**settings | {"num_train_steps": 2})
    pretraining_runs.train(config, quiet)
    return pathlib.Path(config.model_dir)


def test_keys_that_spell_out_their_defaults_are_no_change(make_config):
    def config(objective_hparams: dict, masking_hparams: dict, **more):
        return make_config(
            num_train_steps=1,
            objective="sentence_contrastive",
            objective_hparams=objective_hparams,
            masking="strategic",
            masking_hparams=masking_hparams,
            **more,
        )

    spelled_out = config({"unchanged_share": 0.2}, {"power": 0.5})
    pretraining_runs.train(config({}, {}), quiet)
    said = []
    pretraining_runs.train(spelled_out, said.append)
    assert said[-1] == "Nothing to do: all 1 steps are done."
    assert not [line for line in said if "Changed" in line]
    defaults = model_class(spelled_out).key_defaults(spelled_out)
    assert changed_metrics(spelled_out, None, defaults) == []
    check_recorded_replacements(spelled_out, "--method", defaults)
    expected = r"objective_hparams: \{\} before, \{'unchanged_share': 0.3\} now$"
    with pytest.raises(UserError, match=expected):
        pretraining_runs.train(config({"unchanged_share": 0.3}, {"power": 0.5}), quiet)


def test_a_finished_run_is_left_alone(make_config, run_of_two_steps):
    config = make_config(num_train_steps=2)
    shutil.copytree(run_of_two_steps, config.model_dir)
    said = []
    pretraining_runs.train(config, said.append)
    assert any("Nothing to do" in line for line in said)


def test_a_resumed_run_refuses_changes_that_are_not_allowed(
    make_config, tiny_data, tmp_path, run_of_two_steps
):
    """Also of a run that has ended, and whose checkpoint another one would go on from."""
    folder = pathlib.Path(make_config().model_dir)
    shutil.copytree(run_of_two_steps, folder)
    before = {path: path.read_bytes() for path in folder.glob("*") if path.is_file()}
    other_data = tmp_path / "pretrain_data.tfrecord"
    with tf.io.TFRecordWriter(str(other_data)) as writer:
        writer.write(make_record(np.random.default_rng(5), 16))
    heads = {**make_config().model_hparam_overrides, "num_attention_heads": 4}
    for name, value in {
        "num_train_steps": 6,
        "learning_rate": 2e-3,
        "train_batch_size": 4,
        "seed": 1,
        "mask_prob": 0.3,
        "masking": "span",
        "num_warmup_steps": 1,
        "objective": "electra_15",
        "num_attention_heads": heads,
        "strip_accents": False,
        "data": str(other_data),
    }.items():
        flag = {"num_attention_heads": "model_hparam_overrides", "data": "pretrain_tfrecords"}
        given = {"num_train_steps": 2, flag.get(name, name): value}
        with pytest.raises(UserError, match=rf"\n  {name}: .* before, .* now"):
            pretraining_runs.train(make_config(**given), quiet)
    after = {path: path.read_bytes() for path in folder.glob("*") if path.is_file()}
    assert after == before
    # The same records elsewhere are the same data.
    moved = tmp_path / "moved"
    shutil.copytree(tiny_data, moved)
    lines: list[str] = []
    config = make_config(
        data_dir=str(moved),
        num_train_steps=4,
        iterations_per_loop=1,
        train_batch_size=4,
        allow_changed_settings=("num_train_steps", "train_batch_size"),
    )
    pretraining_runs.train(config, lines.append)
    assert any("so 8 examples" in line and "trained on again" in line for line in lines)
    changed = [line for line in lines if line.startswith("Changed: ")]
    assert "Changed: num_train_steps: 2 before, 4 now (allowed)" in changed
    assert any(
        "iterations_per_loop: 2" in line and "does not affect" in line for line in changed
    )
    (logged,) = [record for record in log_records(config) if record["kind"] == "settings"]
    assert logged["step"] == 2
    assert logged["changed"]["num_train_steps"] == {"recorded": 2, "given": 4}
    assert log_records(config)[-1]["step"] == 4
    # What was allowed is recorded.
    lines.clear()
    pretraining_runs.train(dataclasses.replace(config, allow_changed_settings=()), lines.append)
    assert lines[-1].startswith("Nothing to do")


def test_a_resumed_run_tells_that_it_is_evaluated_on_other_records(
    make_config, tiny_data, run_of_two_steps, capsys
):
    """Whose path may be the same; the log would mix two curves."""
    held_out = str(tiny_data / "pretrain_tfrecords" / "*")
    changed_steps = {"num_train_steps": 4, "allow_changed_settings": ("num_train_steps",)}
    config = make_config(**changed_steps, eval_tfrecords=held_out)
    folder = pathlib.Path(config.model_dir)
    shutil.copytree(run_of_two_steps, folder)
    path = folder / "config.json"
    saved = without_seal(json.loads(path.read_text()), path)
    saved["hyperparameters"] |= {"held_out": "other", "eval_tfrecords": held_out}
    path.write_text(json.dumps(saved))
    # A step without any, after which the others are still known.
    without = dataclasses.replace(config, num_train_steps=3, eval_tfrecords=None)
    pretraining_runs.train(without, quiet)
    lines: list[str] = []
    pretraining_runs.train(config, lines.append)

    assert any(line.startswith("Changed: held_out: 'other' before, ") for line in lines)
    said = "the held-out records are not those that the run was evaluated on up to step 3"
    assert said in capsys.readouterr().err
    logged = [record for record in log_records(config) if record["kind"] == "settings"][-1]
    recorded = json.loads(path.read_text())["hyperparameters"]["held_out"]
    assert logged["changed"]["held_out"] == {"recorded": "other", "given": recorded}
    assert recorded == held_out_records(config).fingerprint(16)


def test_a_resumed_run_tells_that_a_batch_has_other_parts(make_config, run_of_two_steps):
    """Such as on a machine with more cores: dropout masks differ there."""
    config = make_config(num_train_steps=3, allow_changed_settings=("num_train_steps",))
    shutil.copytree(run_of_two_steps, config.model_dir)
    path = pathlib.Path(config.model_dir, "run_info.json")
    info = json.loads(path.read_text())
    now = info["environment"]["parts of a batch"]
    info["environment"]["parts of a batch"] = now + 1
    path.write_text(json.dumps(info))
    lines: list[str] = []
    pretraining_runs.train(config, lines.append)
    (line,) = [line for line in lines if line.startswith("Parts:")]
    assert f"divided into {now} parts, previously into {now + 1}: dropout masks differ" in line
    assert read_run_info(config.model_dir)["environment"]["parts of a batch"] == now
    # Nothing is left to be drawn.
    path.write_text(json.dumps(info))
    lines.clear()
    pretraining_runs.train(config, lines.append)
    assert lines[-1].startswith("Nothing to do")
    assert not any(line.startswith("Parts:") for line in lines)


def test_an_evaluation_without_the_flags_of_the_run_is_told_so(
    make_config, run_of_two_steps, capsys
):
    """Not that the vocabulary has too few entries, or the records another length."""
    overrides = {**make_config().model_hparam_overrides, "max_position_embeddings": 32}
    config = make_config(vocab_size=64, max_seq_length=32, model_hparam_overrides=overrides)
    shutil.copytree(run_of_two_steps, config.model_dir)
    message = (
        r"differs from the configured one: max_position_embeddings: 16 before, 32 now; "
        r"vocab_size: 40 before, 64 now\. Pass the flags of its run, such as --model_size"
    )
    with pytest.raises(UserError, match=message):
        pretraining_runs.evaluate(config, quiet)
    assert not capsys.readouterr().err


def test_statistics_of_changed_data_are_those_of_the_new_data(
    make_config, tmp_path, run_of_two_steps
):
    shutil.copytree(run_of_two_steps, make_config().model_dir)
    before = read_run_info(make_config().model_dir)["data"]
    data = tmp_path / "new.tfrecord"
    with tf.io.TFRecordWriter(str(data)) as writer:
        writer.write(make_record(np.random.default_rng(5), 16))
    config = make_config(
        num_train_steps=3,
        pretrain_tfrecords=str(data),
        allow_changed_settings=("data", "num_train_steps"),
    )
    pretraining_runs.train(config, quiet)
    after = read_run_info(config.model_dir)["data"]
    assert after["unigram_accuracy"] > before["unigram_accuracy"]


def test_a_record_is_that_of_the_checkpoint_until_the_next(
    make_config, tiny_data, tmp_path, run_of_two_steps, monkeypatch
):
    """A start with other settings may be stopped before, and those of before resume it."""
    config = make_config(num_train_steps=4, allow_changed_settings=("num_train_steps",))
    folder = pathlib.Path(config.model_dir)
    shutil.copytree(run_of_two_steps, folder)
    names = ("config.json", "vocab.txt", "vocab.tokenizer.json")
    before = {name: (folder / name).read_bytes() for name in names}
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text((tiny_data / "vocab.txt").read_text().replace("w34", "other"))
    other = dataclasses.replace(
        config,
        learning_rate=2e-3,
        vocab_file=str(vocab_file),
        allow_changed_settings=("learning_rate", "num_train_steps", "vocabulary"),
    )

    class StopError(Exception):
        """Stands for a kill."""

    def run_loop(*_: object, **__: object) -> None:
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(run, "run_loop", run_loop)
        with pytest.raises(StopError):
            pretraining_runs.train(other, quiet)
    assert {name: (folder / name).read_bytes() for name in names} == before
    lines: list[str] = []
    pretraining_runs.train(config, lines.append)
    allowed = [line for line in lines if line.endswith("(allowed)")]
    assert allowed == ["Changed: num_train_steps: 2 before, 4 now (allowed)"]
    saved = json.loads((folder / "config.json").read_text())
    assert saved["hyperparameters"]["num_train_steps"] == 4
    (logged,) = [record for record in log_records(config) if record["kind"] == "settings"]
    assert "num_train_steps" in logged["changed"]
    assert "learning_rate" not in logged["changed"]


def test_statistics_of_a_start_without_a_checkpoint_are_not_taken(make_config, monkeypatch):
    """It may have been on other data."""

    class StopError(Exception):
        """Stands for a kill."""

    taken = []

    def open_log(config, settings, statistics, *_: object) -> None:
        taken.append(statistics)
        raise StopError

    monkeypatch.setattr(run, "open_log", open_log)
    config = make_config()
    write_run_info(config.model_dir, [], {"unigram_accuracy": 1.0, "unknown_share": 1.0})
    with pytest.raises(StopError):
        pretraining_runs.train(config, quiet)
    assert 0 < taken[0]["unigram_accuracy"] < 0.5
    assert taken[0]["unknown_share"] == 0


@pytest.fixture
def padding_alone(tmp_path) -> str:
    """A file with a record that has no text."""
    path = tmp_path / "padding.tfrecord"
    zeros = tf.train.Feature(int64_list=tf.train.Int64List(value=[0] * 16))
    names = ("input_ids", "input_mask", "segment_ids")
    features = tf.train.Features(feature=dict.fromkeys(names, zeros))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())
    return str(path)


def test_every_worker_refuses_records_without_text(make_config, padding_alone, monkeypatch):
    """Else the others would call the chief a lost worker, and be started again."""
    config = make_config(pretrain_tfrecords=padding_alone)
    create_context = context.create_context

    def not_as_chief(*args) -> context.DistributionContext:
        run = create_context(*args)
        run.workers.is_chief = False
        return run

    monkeypatch.setattr(context, "create_context", not_as_chief)
    with pytest.raises(UserError, match="contain only special tokens and padding"):
        pretraining_runs.train(config, quiet)


def test_held_out_records_without_text_are_refused(
    make_config, padding_alone, run_of_two_steps
):
    """All metrics would be NaN, from the first evaluation on."""
    config = make_config(eval_tfrecords=padding_alone)
    with pytest.raises(UserError, match="contain only special tokens and padding"):
        pretraining_runs.train(config, quiet)
    assert not pathlib.Path(config.model_dir, "config.json").exists()
    shutil.copytree(run_of_two_steps, config.model_dir, dirs_exist_ok=True)
    config = make_config(eval_tfrecords=padding_alone, do_train=False, do_eval=True)
    with pytest.raises(UserError, match="contain only special tokens and padding"):
        pretraining_runs.evaluate(config, quiet)


def test_a_debug_run_starts_anew_and_leaves_other_runs_alone(make_config):
    config = make_config(debug=True, num_train_steps=1)
    folder = pathlib.Path(config.model_dir)
    folder.mkdir()
    (folder / "ckpt-1.index").touch()
    for debug in (False, True):
        content = {"hyperparameters": {"debug": debug}, "variables": {}}
        (folder / "config.json").write_text(json.dumps(content))
        if not debug:
            with pytest.raises(UserError, match="--debug would replace the run in"):
                pretraining_runs.train(config, quiet)
            assert (folder / "ckpt-1.index").exists()
    elsewhere = folder.with_name("elsewhere")
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    below = elsewhere / "another_run"
    below.mkdir()
    (below / "ckpt-9.index").touch()
    (elsewhere / "ckpt-8.index").touch()
    pretraining_runs.train(config, quiet)
    assert [record["step"] for record in log_records(config)] == [1]
    assert (elsewhere / "ckpt-1.index").stat().st_size
    assert not (elsewhere / "ckpt-8.index").exists()
    assert (below / "ckpt-9.index").exists()


def test_evaluation_writes_text_json_and_pickle(
    make_config, tmp_path, run_of_two_steps, capsys
):
    shutil.copytree(run_of_two_steps, make_config().model_dir)
    pickled = tmp_path / "results.pkl"
    evaluation = make_config(
        num_train_steps=2, do_train=False, do_eval=True, results_pkl=str(pickled), mlflow="e"
    )
    warn_once.cache_clear()
    values = pretraining_runs.evaluate(evaluation, quiet)
    warned = capsys.readouterr().err
    assert "the model was trained on these records" in warned
    assert "--mlflow=e has no effect without training" in warned
    saved = json.loads(pathlib.Path(evaluation.results_json).read_text())
    assert saved["step"] == 2
    assert saved["disc_auc"] == values["disc_auc"]
    assert "masked_lm_accuracy = " in pathlib.Path(evaluation.results_txt).read_text()
    assert pickled.exists()
    overwriting = dataclasses.replace(evaluation, results_pkl=evaluation.vocab_file)
    with pytest.raises(
        UserError, match=r"--results_pkl=.* is the file that --vocab_file reads"
    ):
        pretraining_runs.evaluate(overwriting, quiet)
    # The same masks and samples every time.
    assert pretraining_runs.evaluate(evaluation, quiet) == pytest.approx(values, nan_ok=True)


def test_an_evaluation_of_a_discriminator_that_no_loss_trains_is_told(make_config, capsys):
    run = partial(make_config, num_train_steps=1, disc_weight=0.0)
    pretraining_runs.train(run(), quiet)
    warn_once.cache_clear()
    capsys.readouterr()
    pretraining_runs.evaluate(run(do_train=False, do_eval=True), quiet)
    told = "--disc_weight=0 does not train the discriminator, so its metrics (disc_*) are"
    assert told in capsys.readouterr().err


def test_an_evaluation_with_other_settings_than_in_training_is_told(
    make_config, run_of_two_steps
):
    config = partial(make_config, model_dir=str(run_of_two_steps), num_train_steps=2)
    assert changed_metrics(config(), None) == []
    assert changed_metrics(config(), "a1") == ["words: None before, 'a1' now"]
    # What does not change the metrics of a trained model is nobody's concern.
    other = config(learning_rate=1.0, temperature_end=2.0, mask_prob=0.3, temperature=3.0)
    assert changed_metrics(other, None) == [
        "mask_prob: 0.15 before, 0.3 now",
        "max_predictions_per_seq: 2 before, 4 now",
        "temperature: 1.0 before, 3.0 now",
    ]
    # Whose variables are the same.
    assert changed_metrics(config(objective="electra_15"), None) == [
        "objective: 'electra' before, 'electra_15' now"
    ]


def test_a_model_that_was_not_trained_from_the_given_checkpoint_is_told(
    make_config, run_of_two_steps, capsys
):
    warn_once.cache_clear()
    config = make_config(num_train_steps=2, init_checkpoint="elsewhere")
    shutil.copytree(run_of_two_steps, config.model_dir)
    vocabulary = model_builder.load_checked_vocabulary(config)
    load = partial(model_builder.load_model, config, vocabulary, tf.distribute.get_strategy())
    load()
    expected = f"--init_checkpoint=elsewhere has no effect: .* in {config.model_dir}, which was"
    assert re.search(expected, capsys.readouterr().err)
    path = pathlib.Path(config.model_dir, "config.json")
    recorded = json.loads(path.read_text())
    del recorded["content_sha256"]
    for start in ("elsewhere", f"{config.model_dir}/moved/elsewhere"):
        recorded["hyperparameters"]["init_checkpoint"] = start
        path.write_text(json.dumps(recorded))
        warn_once.cache_clear()
        load()
        assert "has no effect" not in capsys.readouterr().err


def test_an_evaluation_without_a_record_of_the_settings_is_refused(
    make_config, run_of_two_steps
):
    """The model of other settings, such as its attention heads, has the same variables."""
    config = make_config(do_train=False, do_eval=True)
    shutil.copytree(run_of_two_steps, config.model_dir)
    pathlib.Path(config.model_dir, "config.json").unlink()
    with pytest.raises(UserError, match=r"has checkpoints but no config\.json, which records"):
        pretraining_runs.evaluate(config, quiet)


def test_evaluations_refuse_unknown_settings_that_may_change(make_config):
    config = make_config(do_train=False, do_eval=True, allow_changed_settings=("typo",))
    with pytest.raises(UserError, match="unknown setting 'typo'"):
        pretraining_runs.evaluate(config, quiet)


def test_a_run_is_read_in_a_folder_whose_name_looks_like_a_pattern(
    make_config, tmp_path, run_of_two_steps
):
    folder = tmp_path / "run [2], *?"
    shutil.copytree(run_of_two_steps, folder)
    evaluation = make_config(
        model_dir=str(folder), num_train_steps=2, do_train=False, do_eval=True
    )
    pretraining_runs.evaluate(evaluation, quiet)
    config = make_config(
        model_dir=str(folder), num_train_steps=3, allow_changed_settings=("num_train_steps",)
    )
    said = []
    pretraining_runs.train(config, said.append)
    assert f"Resuming from {folder}/ckpt-2, step 2." in said


def test_a_checkpoint_of_another_shape_names_the_variables(make_config, run_of_two_steps):
    shutil.copytree(run_of_two_steps, make_config().model_dir)
    allowed = ("num_train_steps", "embedding_size", "embedding_sharing")
    make_config = partial(make_config, num_train_steps=4, allow_changed_settings=allowed)
    other = make_config(embedding_size=12)
    with pytest.raises(UserError, match=r"electra/embeddings/word_embeddings: \[40, 8\]"):
        pretraining_runs.train(other, quiet)
    deeper = make_config(untied_generator_embeddings=True)
    with pytest.raises(UserError, match=r"generator/embeddings/.*only in the model"):
        pretraining_runs.train(deeper, quiet)


def test_a_folder_that_another_program_trains_into_is_left_alone(make_config):
    config = make_config()
    lock = lock_model_dir(config.model_dir, "", Workers(tf.distribute.get_strategy()))
    message = r"Another program .* --model_name or --model_dir"
    with lock, pytest.raises(UserError, match=message):
        pretraining_runs.train(config, quiet)
    assert not pathlib.Path(config.model_dir).exists()


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(make_config):
    config = make_config(
        objective="mlm", learning_rate=1e30, num_warmup_steps=0, num_train_steps=20
    )
    with pytest.raises(UserError, match=r"Step \d+: not finite: .*loss") as error:
        pretraining_runs.train(config, quiet)
    assert "--learning_rate" in str(error.value)
    for path in pathlib.Path(config.model_dir).glob("ckpt-*.index"):
        for name, value in weights_of(config, int(path.stem.split("-")[1])).items():
            assert np.all(np.isfinite(value)), name


def test_a_model_of_other_heads_is_refused_though_its_variables_fit(make_config):
    config = make_config()
    content = {"hyperparameters": dataclasses.asdict(config), "variables": {}}
    folder = pathlib.Path(config.model_dir)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(content))
    heads = {**config.model_hparam_overrides, "num_attention_heads": 4}
    other = make_config(model_hparam_overrides=heads, do_train=False, do_eval=True)
    with pytest.raises(UserError, match="num_attention_heads: 2 before, 4 now"):
        pretraining_runs.evaluate(other, quiet)


def test_a_corrupt_record_is_named_or_skipped(make_config, tiny_data, tmp_path):
    data = tmp_path / "damaged"
    shutil.copytree(tiny_data, data)
    shard = data / "pretrain_tfrecords" / "pretrain_data.tfrecord-1-of-2"
    content = bytearray(shard.read_bytes())
    content[-10] ^= 0xFF
    shard.write_bytes(bytes(content))
    make_config = partial(make_config, objective="mlm")
    config = make_config(data_dir=str(data), num_train_steps=12)
    with pytest.raises(UserError, match=r"tfrecord-1-of-2.*--skip_bad_records"):
        pretraining_runs.train(config, quiet)
    evaluating = make_config(
        num_train_steps=2,
        save_checkpoints_steps=2,
        eval_tfrecords=str(shard),
        model_dir=str(tmp_path / "evaluating"),
    )
    with pytest.raises(UserError, match=r"--eval_tfrecords.*tfrecord-1-of-2"):
        pretraining_runs.train(evaluating, quiet)
    said = []
    skipping = make_config(
        data_dir=str(data), skip_bad_records=True, model_dir=str(tmp_path / "skip")
    )
    pretraining_runs.train(skipping, said.append)
    assert any("49 good ones" in line for line in said)


def test_bad_input_is_refused_before_anything_is_written(make_config, tiny_data, tmp_path):
    cases = {
        "--vocab_size is 39": {"vocab_size": 39},
        # The default, which has been forgotten.
        "--vocab_size is 30522, .* has 40 entries: pass --vocab_size=40": {"vocab_size": 30522},
        "vocab_size in --model_hparam_overrides is 30522, .*: set it to 40": {
            "vocab_size": 30522,
            "model_hparam_overrides": {
                **make_config().model_hparam_overrides,
                "vocab_size": 30522,
            },
        },
        "--pretrain_tfrecords": {"pretrain_tfrecords": str(tmp_path / "none*")},
        "--vocab_file": {"vocab_file": str(tmp_path / "none.txt")},
    }
    for message, overrides in cases.items():
        config = make_config(**overrides)
        with pytest.raises(UserError, match=message):
            pretraining_runs.train(config, quiet)
        assert not pathlib.Path(config.model_dir).exists()
    length = make_config(max_seq_length=8)
    with pytest.raises(UserError, match="have 16 tokens"):
        pretraining_runs.train(length, quiet)
    assert not pathlib.Path(length.model_dir).exists()
    evaluation = make_config(do_train=False, do_eval=True)
    with pytest.raises(UserError, match="No checkpoint"):
        pretraining_runs.evaluate(evaluation, quiet)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({}, "--objective=electra trains nothing with --gen_weight=0 and --disc_weight=0"),
        # The generator has no weights to train.
        ({"uniform_generator": True, "gen_weight": 1.0}, "nothing with --disc_weight=0"),
        ({"electra_objective": False, "disc_weight": 50.0}, "nothing with --gen_weight=0"),
        (
            {"objective": "replace_mlm", "objective_hparams": {"replace_weight": 0.0}},
            "and replace_weight of --objective_hparams=0",
        ),
        ({**TWO_STAGE, "gen_weight": 1.0}, "The second stage .* with --disc_weight=0"),
        ({**TWO_STAGE, "disc_weight": 1.0}, "The first stage .* with --gen_weight=0"),
        (
            {
                "objective": "sentence_contrastive",
                "objective_hparams": {"unchanged_share": 1.0},
            },
            "unchanged_share=1 .* leaves no corrupted inputs",
        ),
        ({**TWO_STAGE, "uniform_generator": True}, "needs --generator_type=masked_lm"),
    ],
)
def test_losses_without_weight_are_refused(make_config, overrides, message):
    config = make_config(**{"gen_weight": 0.0, "disc_weight": 0.0, **overrides})
    with pytest.raises(UserError, match=message):
        pretraining_runs.train(config, quiet)
    assert not pathlib.Path(config.model_dir).exists()


@pytest.mark.parametrize(
    "overrides",
    [
        {"span_boundary_weight": 1.0},
        {"objective": "sentence_contrastive"},
        {"objective": "adversarial", "objective_hparams": {"masked_lm_weight": 1.0}},
        {"uniform_generator": True, "disc_weight": 1.0},
    ],
)
def test_one_loss_with_weight_is_enough(make_config, overrides):
    config = make_config(**{"gen_weight": 0.0, "disc_weight": 0.0, **overrides})
    model_class(config).check_loss_weights(config)


def test_more_embeddings_than_tokens_are_trained_and_evaluated(
    make_config, tmp_path, capsys, unfused
):
    held_out = tmp_path / "held_out.tfrecord"
    with tf.io.TFRecordWriter(str(held_out)) as writer:
        writer.write(make_record(np.random.default_rng(1), 16))
    config = make_config(
        vocab_size=43, num_train_steps=2, masking="strategic", eval_tfrecords=str(held_out)
    )
    in_training = pretraining_runs.train(config, quiet)
    assert "fewer than --vocab_size=43: the last 3 embeddings" in capsys.readouterr().err
    evaluation = dataclasses.replace(config, do_train=False, do_eval=True)
    values = pretraining_runs.evaluate(evaluation, quiet)
    # Rare tokens are those of the training records, not of the held-out ones.
    assert values == pytest.approx(in_training, nan_ok=True)
    moved = dataclasses.replace(evaluation, pretrain_tfrecords=str(tmp_path / "gone*"))
    with pytest.raises(UserError, match=r"training records, too.* \(--pretrain_tfr"):
        pretraining_runs.evaluate(moved, quiet)
    weights = weights_of(config, 2)
    assert {43} <= {size for value in weights.values() for size in value.shape}
    loading = make_config(vocab_size=30522, init_checkpoint=config.model_dir)
    assert model_builder.load_checked_vocabulary(loading).size == 30522


# Together they have every objective, masking, generator, replacement and sharing, and the
# authors' flags for them.
MODES = [
    {
        "gradient_accumulation_steps": 2,
        "rematerialize": True,
        "embedding_sharing": "token",
        "replacement": "argmax",
    },
    {"objective": "electra_15", "masking": "whole_word", "embedding_sharing": "gdes"},
    {"objective": "replace_mlm", "masking": "strategic", "embedding_sharing": "none"},
    {
        "objective": "all_tokens_mlm",
        "masking": "span",
        "span_boundary_weight": 1.0,
        "untied_generator": False,
        "generator_hidden_size": 1.0,
    },
    {"electra_objective": False, "mask_prob_end": 0.3, "masking": "learned"},
    {"objective": "electric", "generator_type": "two_tower", "gradient_accumulation_steps": 2},
    TWO_STAGE,
    {"objective": "adversarial", "embedding_sharing": "es", "generator_learning_rate": 1e-4},
    {"objective": "sentence_contrastive", "uniform_generator": True},
    {"generator_type": "unigram", "disallow_correct": True, "temperature": 2.0},
]


@pytest.fixture(scope="module")
def compiling_process() -> Iterator[TrainingProcess]:
    with TrainingProcess() as process:
        yield process


def assert_trains(config) -> None:
    values = pretraining_runs.train(config, quiet)
    assert np.isfinite(values["loss"])
    has_discriminator = model_class(config).has_discriminator
    assert ("disc_loss" in values) == has_discriminator
    if config.disallow_correct:
        assert values["sampled_masked_lm_accuracy"] == 0
    values = pretraining_runs.evaluate(dataclasses.replace(config, do_train=False), quiet)
    assert np.isfinite(values["loss"])


@pytest.mark.parametrize(
    "overrides",
    MODES,
    ids=lambda overrides: ",".join(str(v) for v in overrides.values() if type(v) is not dict),
)
def test_every_mode_trains_and_xla_computes_the_same(
    make_config, tmp_path, compiling_process, overrides
):
    # XLA compiles each layer by itself.
    shape = {**make_config().model_hparam_overrides, "num_hidden_layers": 1}
    options = {"num_train_steps": 2, "model_hparam_overrides": shape, **overrides}
    plain = make_config(model_dir=str(tmp_path / "plain"), **options)
    compiled = make_config(model_dir=str(tmp_path / "compiled"), jit_compile=True, **options)
    with compiling_process.training(compiled):
        assert_trains(plain)
    actual = weights_of(compiled, 2)
    for name, value in weights_of(plain, 2).items():
        # The smallest gradients are rounding noise, which Adam scales up to 1e-3.
        np.testing.assert_allclose(actual[name], value, atol=2e-5, err_msg=name)


def test_bfloat16_trains(make_config, monkeypatch):
    told = []
    monkeypatch.setattr(bfloat16, "_is_emulated", lambda cpu_info: True)
    monkeypatch.setattr(bfloat16, "warn_once", told.append)
    options = {"precision": "mixed_bfloat16", "disallow_correct": True, "temperature": 2.0}
    assert_trains(make_config(num_train_steps=2, **options))
    assert len(told) == 2  # by training and by evaluation
