"""Whole runs through their real entry function, on data that the tests write."""

import dataclasses
import json
import math
import os
import pathlib
import pickle
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.run import load_servable
from electra_tf.interop.conversion import convert
from electra_tf.interop.formats import ConversionConfig, make_format
from electra_tf.model.kernels import without_fusion
from electra_tf.model.randomness import Randomness
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.checkpoints.best_checkpoint import BestCheckpoint
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution import bfloat16, context
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.monitoring.run_info import read_log, training_seconds, write_run_info
from electra_tf.training.nonfinite import MAX_IN_A_ROW
from electra_tf.training.step import TrainingSteps
from electra_tf.util.console import warn_once
from electra_tf.util.errors import PreemptedError, UserError, WorkerLostError
from electra_tf.util.seals import sealed, without_seal
from finetune import run as finetune_run
from finetune.authors_tasks import describe_task
from finetune.config.finetuning import FinetuningConfig
from finetune.data.batches import FeatureTable, iterate_batches
from finetune.ensemble import rank_trials
from finetune.export import FINETUNED
from finetune.model_family import FINETUNING
from finetune.results import run_files
from finetune.results.plots import confusion, drawing, learning_curves
from finetune.results.report_runs import read_finetuning_run
from finetune.results.result_files import read_results
from finetune.results.summary import TrialResult
from finetune.run import require_finished
from finetune.task_data import TaskData, fingerprint
from finetune.tasks.registry import build_tasks
from finetune.trainer import DivergedError, Trainer
from finetune.trials import trial_session
from finetune.trials.trial_runs import TrialRun, fold_runs
from tests.finetune.conftest import small_settings, write_model


def quiet(message: str) -> None:
    """Says nothing."""


def weights_of(model_dir: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(model_dir))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE") and "save_counter" not in name
    }


def assert_same_weights(first: str, second: str) -> None:
    ours, theirs = weights_of(first), weights_of(second)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert np.array_equal(ours[name], theirs[name]), name


@pytest.fixture(scope="module")
def two_trials(finetuning_data, tmp_path_factory) -> pathlib.Path:
    """The folder of a finished run of two trials: models, results and features."""
    folder = tmp_path_factory.mktemp("two_trials")
    settings = small_settings(finetuning_data, folder)
    finetune_run.run(FinetuningConfig.create(**settings, num_trials=2), quiet)
    return folder


@pytest.fixture
def finished(two_trials, tmp_path) -> pathlib.Path:
    """A copy of that folder, where `make_finetuning_config` has its own."""
    shutil.copytree(two_trials, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_trials_learn_and_leave_results(make_finetuning_config, monkeypatch):
    for module in (confusion, learning_curves):
        monkeypatch.setattr(module, "save_figure", drawing.save_figure)
    config = make_finetuning_config(num_trials=2, num_train_epochs=12)
    results = finetune_run.run(config, quiet)
    assert [result.seed for result in results] == [42, 43]
    assert [result.steps for result in results] == [96, 96]
    # The label follows from one word: chance is an MCC of 0.
    assert min(result.metrics["cola/dev"]["mcc"] for result in results) > 50
    folder = pathlib.Path(config.results_dir)
    assert "cola/dev" in json.loads((folder / "cola_results.json").read_text())["summary"]
    assert "| median |" in (folder / "cola_results.md").read_text()
    assert len(pickle.loads(pathlib.Path(config.results_pkl).read_bytes())) == 2
    for name in ("cola_learning_curves.png", "cola_dev_1_confusion.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_later_trial_equals_a_run_of_its_own(make_finetuning_config, finished):
    """Trials share compiled graphs and variables, and nothing else."""
    alone = make_finetuning_config(seed=43, model_dir=str(finished / "alone"))
    finetune_run.run(alone, quiet)
    assert_same_weights(str(finished / "model_2"), str(finished / "alone_1"))


def test_a_stopped_run_goes_on_where_it_was(
    make_finetuning_config, finished, monkeypatch, capsys
):
    class StopError(Exception):
        """Stands for a kill."""

    original = TrainingSteps.run

    def run(self, iterator, num_steps, lengths):
        if int(self._step) >= 12:
            raise StopError
        original(self, iterator, num_steps, lengths)

    other = make_finetuning_config(model_dir=str(finished / "other"), save_checkpoints_steps=6)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingSteps, "run", run)
        with pytest.raises(StopError):
            finetune_run.run(other, quiet)
    said = []
    # Whatever uses it meanwhile, says that it has not finished.
    for use in (_evaluate, _load_to_export, _read_to_convert):
        warn_once.cache_clear()
        use(other)
        warning = "ckpt-12 is from step 12 of 16: this fine-tuning has not finished"
        assert warning in capsys.readouterr().err
    finetune_run.run(other, said.append)
    assert any("Resuming from" in line and "step 12" in line for line in said)
    assert_same_weights(str(finished / "model_1"), str(finished / "other_1"))
    for use in (_evaluate, _load_to_export, _read_to_convert):
        use(other)
        assert "not finished" not in capsys.readouterr().err


def _evaluate(config: FinetuningConfig) -> None:
    finetune_run.run(dataclasses.replace(config, do_train=False), quiet)


def _load_to_export(config: FinetuningConfig) -> None:
    folder = f"{config.model_dir}_1"
    export = ExportConfig(model_dir=folder, export_dir=pathlib.Path(folder, "export"))
    load_servable(export, (FINETUNED,), quiet)


def _read_to_convert(config: FinetuningConfig) -> None:
    make_format("electra_tf", [FINETUNING]).read(f"{config.model_dir}_1")


def test_positions_that_pretraining_has_not_used_are_told(
    make_finetuning_config, finetuning_data, tiny_data, tmp_path, capsys
):
    write_model(tmp_path / "short", tiny_data, max_seq_length=8)
    config = make_finetuning_config(
        init_checkpoint=str(tmp_path / "short"), num_train_epochs=0.125, do_eval=False
    )
    with without_fusion():
        finetune_run.run(config, quiet)
    warned = capsys.readouterr().err
    told = f"rows are longer than the 8 tokens that {tmp_path / 'short'} was pre-trained on"
    assert warned.count(told) == 1
    assert "Pass --max_seq_length=8" in warned
    longest = 13  # of the sentences, with [CLS] and [SEP]
    assert (
        f'"trained_positions": {longest}'
        in pathlib.Path(f"{config.model_dir}_1", "config.json").read_text()
    )
    _load_to_export(config)
    told = f"--max_seq_length=16 is longer than the {longest} tokens that {config.model_dir}_1"
    assert told in capsys.readouterr().err


def test_parts_of_a_batch_train_alike(make_finetuning_config, tmp_path, monkeypatch):
    monkeypatch.setattr("finetune.tasks.text.base.DROPOUT_RATE", 0.0)
    weights = []
    for parts in (1, 4):
        config = make_finetuning_config(
            model_dir=str(tmp_path / f"in_{parts}"),
            model_hparam_overrides={
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
            },
            bucket_by_length=False,
            gradient_accumulation_steps=parts,
            learning_rate=1e-3,
            num_train_epochs=1,
            do_eval=False,
        )
        with without_fusion():  # they compile faster
            finetune_run.run(config, quiet)
        weights.append(weights_of(f"{config.model_dir}_1"))
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, atol=1e-5, err_msg=name)


def test_steps_compiled_as_a_whole_take_length_buckets(make_finetuning_config):
    config = make_finetuning_config(jit_compile=True, length_buckets=(4, 6, 8, 16))
    assert config.bucket_by_length
    (result,) = finetune_run.run(config, quiet)
    assert all(np.isfinite(list(scores.values())).all() for scores in result.metrics.values())


def test_bucketing_gives_the_predictions_of_fixed_padding(make_finetuning_config, finished):
    outputs = []
    for bucket_by_length in (True, False):
        one = make_finetuning_config(bucket_by_length=bucket_by_length)
        trainer, tasks, data = build(one)
        trainer.restore(f"{one.model_dir}_1")
        outputs.append(trainer.predict(tasks[0], data.get(tasks[0], "dev")))
    for bucketed, fixed in zip(*outputs, strict=True):
        np.testing.assert_allclose(bucketed["logits"], fixed["logits"], atol=2e-6)


def test_the_batches_of_a_split_are_made_once(make_finetuning_config, monkeypatch):
    """TensorFlow never frees a part of each dataset, and a run has many evaluations."""
    trainer, (task,), data = build(make_finetuning_config())
    trainer.start(1)
    dev, train = (data.get(task, split) for split in ("dev", "train"))
    made = []

    def count(*arguments):
        made.append(arguments)
        return iterate_batches(*arguments)

    monkeypatch.setattr("finetune.predictor.iterate_batches", count)
    first = trainer.predict(task, dev, 4)
    other = trainer.predict(task, train, 4)
    for _ in range(2):
        for split, expected in ((dev, first), (train, other)):
            for ours, theirs in zip(trainer.predict(task, split, 4), expected, strict=True):
                np.testing.assert_array_equal(ours["logits"], theirs["logits"])
    assert len(made) == 2
    trainer.predict(task, dev, 8)
    trainer.predict(task, dataclasses.replace(dev, rows=dev.rows[:3]), 8)
    assert len(made) == 4


def test_a_batch_trains_alike_whatever_it_is_padded_to(make_finetuning_config):
    """Without dropout, gradients and so weights do not depend on the padding."""
    trainer, (task,), data = build(make_finetuning_config())
    trainer.start(1)
    rows = data.get(task, "train", is_training=True).rows
    table = FeatureTable([[r for r in rows if len(r["input_ids"]) <= 10]], [task.feature_specs])
    gradients = []
    for length in (10, 16):
        with tf.GradientTape() as tape:
            output = trainer.model.forward(
                table.gather(np.arange(8), length),
                randomness=Randomness(seed=0, step=0, dropout=False),
            )
            loss = tf.reduce_sum(output.losses)
        variables = [variable.value for variable in trainer.model.trainable_variables]
        gradients.append([tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)])
    for short, long in zip(*gradients, strict=True):
        np.testing.assert_allclose(short, long, atol=1e-5)


def build(config):
    tasks = build_tasks(config, CachedTokenizer(load_vocabulary(config.vocab_file)))
    return (
        Trainer(config, tasks, context.create_context(config), quiet),
        tasks,
        TaskData(config, quiet),
    )


def test_updates_left_out_in_one_trial_do_not_count_in_the_next(make_finetuning_config):
    trainer, _, _ = build(make_finetuning_config(on_nonfinite="skip"))
    steps, _ = trainer._compile(num_train_steps=4)
    steps._skipped_in_a_row.assign(MAX_IN_A_ROW)  # what ends a trial
    trainer.start(seed=2)
    assert int(steps._skipped_in_a_row) == 0


def provenance_of(config) -> dict:
    content = json.loads(pathlib.Path(config.results_dir, "cola_results.json").read_text())
    return content["provenance"]


def test_a_changed_setting_file_or_checkpoint_is_computed_anew(
    make_finetuning_config, finetuning_data, tiny_data, tmp_path
):
    """As with the authors, into the same folder; results have the hashes of all of them."""
    data = tmp_path / "data"
    for name in ("models", "finetuning_data"):
        shutil.copytree(finetuning_data / name, data / name)
    given = {"data_dir": str(data), "num_train_epochs": 1}
    config = make_finetuning_config(**given)
    finetune_run.run(config, quiet)
    hashes = [provenance_of(config)]
    text = pathlib.Path(config.results_txt).read_text()
    assert f"Hash {hashes[0]['hash'][:12]}: pre-trained checkpoint" in text

    lines: list[str] = []
    write_run_info(f"{config.model_dir}_1", [], num_parts=7)
    finetune_run.run(config, lines.append)
    assert any(line.startswith("Resuming from") for line in lines)  # the same: reused
    assert not any("dropout draws" in line for line in lines)  # no step is left
    assert provenance_of(config) == hashes[0]

    def changed(expected: str, **more) -> None:
        lines.clear()
        finetune_run.run(make_finetuning_config(**{**given, **more}), lines.append)
        assert any(line.startswith(expected) for line in lines), lines
        assert not any(line.startswith("Resuming from") for line in lines)
        hashes.append(provenance_of(config))

    changed("  learning_rate: 0.005 before, 0.001 now", learning_rate=1e-3)
    assert (tmp_path / "model_1.replaced" / "config.json").exists()
    given["learning_rate"] = 1e-3
    with (data / "finetuning_data" / "cola" / "train.tsv").open("a") as file:
        file.write("src\t1\t\tw1 w2\n")
    changed("  data: ")
    shutil.rmtree(data / "models" / "m")
    write_model(data / "models" / "m", tiny_data, weights_seed=5)
    evaluation = make_finetuning_config(**given, do_train=False)
    with pytest.raises(UserError, match=r"from weights other than.*--init_checkpoint="):
        finetune_run.run(evaluation, quiet)
    changed("  pretrained_encoder: ")
    parts = ("settings", "task_files", "pretrained_checkpoint")
    for before, after, part in zip(hashes[:-1], hashes[1:], parts, strict=True):
        assert {name for name in parts if before[name] != after[name]} == {part}
        assert before["hash"] != after["hash"]
    # The scores of the trained model alone are of the same three.
    finetune_run.run(evaluation, quiet)
    assert provenance_of(config) == hashes[-1]


def test_a_model_is_reused_where_its_files_have_been_moved(
    make_finetuning_config, finetuning_data, tmp_path
):
    folders = [tmp_path / name for name in ("raw", "moved")]
    for folder in folders:
        (folder / "mine").mkdir(parents=True)
        source = finetuning_data / "finetuning_data" / "cola" / "train.tsv"
        rows = [line.split("\t") for line in source.read_text().splitlines()]
        text = "".join(f"{text}\t{label}\n" for _, label, _, text in rows)
        (folder / "mine" / "train.tsv").write_text(f"text\tlabel\n{text}")
        spec = {"name": "mine", "kind": "classification", "files": {"train": "train.tsv"}}
        (folder / "mine" / "task.json").write_text(json.dumps(spec))

    def run_in(folder: pathlib.Path) -> list[str]:
        config = make_finetuning_config(
            task_names=("mine",),
            raw_data_dir=str(folder),
            task_spec=str(folder / "mine" / "task.json"),
            num_train_epochs=1,
        )
        lines: list[str] = []
        finetune_run.run(config, lines.append)
        return lines

    run_in(folders[0])
    assert any(line.startswith("Resuming from") for line in run_in(folders[1]))
    # As older versions recorded it: with the place of the files.
    path = tmp_path / "model_1" / "config.json"
    content = without_seal(json.loads(path.read_text()), path)
    config = FinetuningConfig(
        **{
            field.name: content["hyperparameters"][field.name]
            for field in dataclasses.fields(FinetuningConfig)
        }
    )
    (task,) = build_tasks(config, CachedTokenizer(load_vocabulary(config.vocab_file), True))
    located = fingerprint(task, "train", is_training=True)
    content["hyperparameters"]["data"] = {"mine/train": located}
    path.write_text(json.dumps(content))
    assert any(line.startswith("Resuming from") for line in run_in(folders[1]))
    path.write_text(json.dumps(content))
    assert any(line.startswith("  data: ") for line in run_in(folders[0]))


def test_weights_are_chosen_anew_when_the_data_that_chose_them_change(
    make_finetuning_config, finetuning_data, tmp_path
):
    raw = tmp_path / "raw"
    shutil.copytree(finetuning_data / "finetuning_data", raw)
    config = make_finetuning_config(raw_data_dir=str(raw), num_train_epochs=1, keep_best=True)
    finetune_run.run(config, quiet)

    def lines_of_next_run() -> list[str]:
        lines: list[str] = []
        finetune_run.run(config, lines.append)
        return lines

    assert any(line.startswith("Resuming from") for line in lines_of_next_run())
    with (raw / "cola" / "dev.tsv").open("a") as file:
        file.write("src\t1\t\tw1 w2\n")
    lines = lines_of_next_run()
    assert any(line.startswith("  data: ") for line in lines), lines
    assert not any(line.startswith("Resuming from") for line in lines)
    # A model of an older version, which recorded the training data alone, is reused.
    path = tmp_path / "model_1" / "config.json"
    recorded = without_seal(json.loads(path.read_text()), path)
    assert recorded["hyperparameters"]["data"].pop("cola/dev")
    path.write_text(json.dumps(recorded))
    assert any(line.startswith("Resuming from") for line in lines_of_next_run())


def test_a_model_without_a_recorded_checkpoint_is_reused_and_said(
    make_finetuning_config, finished
):
    """As older versions wrote them."""
    config = make_finetuning_config()
    path = finished / "model_1" / "config.json"
    content = without_seal(json.loads(path.read_text()), path)
    del content["hyperparameters"]["pretrained_encoder"]
    path.write_text(json.dumps(content))
    lines: list[str] = []
    finetune_run.run(config, lines.append)
    assert any("does not record the weights" in line for line in lines)
    assert provenance_of(config)["pretrained_checkpoint"] is None


def test_a_model_without_a_record_of_its_settings_is_not_reused(
    make_finetuning_config, finished
):
    (finished / "model_1" / "config.json").unlink()
    with pytest.raises(UserError, match=r"model_1 has checkpoints but no config\.json"):
        finetune_run.run(make_finetuning_config(do_train=False), quiet)
    lines: list[str] = []
    config = make_finetuning_config(learning_rate=1e-3, num_train_epochs=1)
    finetune_run.run(config, lines.append)
    assert "  it has no config.json, which records its settings" in lines
    assert not any(line.startswith("Resuming from") for line in lines)
    assert (finished / "model_1.replaced" / "ckpt-16.index").exists()


def test_overwriting_replaces_the_model_that_a_link_leads_to(make_finetuning_config, finished):
    disk = finished / "disk"
    shutil.move(finished / "model_1", disk)
    (finished / "model_1").symlink_to(disk)
    lines: list[str] = []
    config = make_finetuning_config(overwrite=True, learning_rate=1e-3, num_train_epochs=1)
    (result,) = finetune_run.run(config, lines.append)
    assert result.steps == 8
    assert not any(line.startswith("Resuming from") for line in lines)
    assert (finished / "model_1").is_symlink()
    assert [path.stem for path in disk.glob("ckpt-*.index")] == ["ckpt-8"]


def test_a_negative_number_of_trials_goes_on_until_stopped(make_finetuning_config, monkeypatch):
    class StopError(Exception):
        """Stands for Ctrl-C."""

    original = Trainer.train

    def train(self, *arguments, seed, **options):
        if seed == 44:
            raise StopError
        return original(self, *arguments, seed=seed, **options)

    monkeypatch.setattr(Trainer, "train", train)
    config = make_finetuning_config(num_trials=-1, num_train_epochs=1)
    with pytest.raises(StopError):
        finetune_run.run(config, quiet)
    text = pathlib.Path(config.results_txt).read_text()
    assert "Summary: 2 of 2 trials finished" in text


@pytest.mark.parametrize("trains", [True, False])
def test_a_lost_worker_names_the_folder_that_a_trial_resumes_from(
    make_finetuning_config, monkeypatch, trains
):
    def lose(config, run_context, print_fn):
        run_context.workers.count = 2
        raise tf.errors.UnavailableError(None, None, "gone")

    config = make_finetuning_config(do_train=trains)
    monkeypatch.setattr(finetune_run, "_run", lose)
    told = "Start all workers again with the same command"
    if trains:
        told += f": the run resumes from the latest checkpoint in {config.model_dir}_N"
    with pytest.raises(WorkerLostError, match=rf"{told}[.,]"):
        finetune_run.run(config, quiet)


def test_the_best_checkpoint_is_kept_and_training_stops_early(make_finetuning_config):
    config = make_finetuning_config(
        num_train_epochs=40, eval_steps=8, early_stopping_patience=2, learning_rate=1e-2
    )
    (result,) = finetune_run.run(config, quiet)
    assert result.steps < 320
    assert result.best_step == result.steps - 16
    log = pathlib.Path(f"{config.model_dir}_1", "train_log.jsonl").read_text().splitlines()
    evaluations = [r for r in map(json.loads, log) if r["kind"] == "eval"]
    best = max(evaluations, key=lambda record: record["cola_mcc"])
    assert result.metrics["cola/dev"]["mcc"] == pytest.approx(best["cola_mcc"])
    assert best["step"] == result.best_step
    (again,) = finetune_run.run(config, quiet)
    assert (again.steps, again.best_step) == (result.steps, result.best_step)
    # Of the training, not of the second start.
    assert again.seconds > training_seconds(read_log(f"{config.model_dir}_1/train_log.jsonl"))
    # Scores on the data that chose the weights say so without training, too.
    (evaluated,) = finetune_run.run(make_finetuning_config(do_train=False), quiet)
    assert evaluated.chosen_on == result.chosen_on == ["cola/dev"]
    text = pathlib.Path(config.results_dir, "cola_results.txt").read_text()
    assert "weights chosen on cola/dev" in text


def test_a_run_that_is_killed_after_its_early_stop_does_not_go_on(
    make_finetuning_config, tmp_path, monkeypatch
):
    class StopError(Exception):
        """Stands for a kill."""

    def kill(*_: object) -> None:
        raise StopError

    def make(**changes) -> FinetuningConfig:
        return make_finetuning_config(
            num_train_epochs=40,
            eval_steps=8,
            early_stopping_patience=1,
            learning_rate=1e-2,
            **changes,
        )

    whole = make(model_dir=str(tmp_path / "whole"))
    (expected,) = finetune_run.run(whole, quiet)
    assert expected.steps < 320
    with monkeypatch.context() as patch:
        patch.setattr(BestCheckpoint, "restore", kill)
        with pytest.raises(StopError):
            finetune_run.run(make(), quiet)
    # As if it went on where a batch is divided into other parts.
    write_run_info(f"{make().model_dir}_1", [], num_parts=7)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingSteps, "run", kill)
        lines: list[str] = []
        (resumed,) = finetune_run.run(make(), lines.append)
    assert any(line.startswith("Stopped early: ") for line in lines)
    assert any("previously into 7: dropout masks differ" in line for line in lines)
    assert (resumed.steps, resumed.best_step) == (expected.steps, expected.best_step)
    assert_same_weights(f"{whole.model_dir}_1", f"{make().model_dir}_1")


def test_trials_whose_models_were_removed_are_not_trained_again(
    make_finetuning_config, monkeypatch
):
    trained = []
    original = Trainer.train

    def train(self, *given, **named):
        trained.append(os.path.basename(named["model_dir"]))
        return original(self, *given, **named)

    monkeypatch.setattr(Trainer, "train", train)
    plotted = []
    plot = run_files.plot_learning_curves
    monkeypatch.setattr(
        run_files,
        "plot_learning_curves",
        lambda path, records, *given, **named: (
            plotted.append({record["trial"] for record in records}),
            plot(path, records, *given, **named),
        ),
    )
    settings = {"num_train_epochs": 1, "keep_all_models": False}
    first = finetune_run.run(make_finetuning_config(**settings, num_trials=2), quiet)
    assert plotted == [{1}, {1, 2}]
    config = make_finetuning_config(**settings, num_trials=3)
    assert not os.path.exists(f"{config.model_dir}_1")
    os.mkdir(f"{config.model_dir}_1")  # as of a link, which stays
    trained.clear()
    lines: list[str] = []
    results = finetune_run.run(config, lines.append)
    assert trained == ["model_2", "model_3"]
    reused = "--keep_all_models=false removed its model and log, so the trial is missing"
    assert f"Reusing its results: {reused} from the learning curves." in lines
    assert plotted[2:] == [{2}, {2, 3}]
    assert results[:2] == [first[0], dataclasses.replace(first[1], seconds=results[1].seconds)]
    saved = read_results(pathlib.Path(config.results_dir, "cola_results.json")).trials
    assert saved == results
    # Not with other settings, nor if its model is to be kept.
    for changes in ({"learning_rate": 1e-3, "num_trials": 2}, {**settings, "num_trials": 1}):
        trained.clear()
        finetune_run.run(make_finetuning_config(**{**settings, **changes}), quiet)
        assert trained[0] == "model_1"


@pytest.mark.parametrize("keep_all_models", [True, False])
def test_a_start_that_ends_early_keeps_the_results_of_later_trials(
    make_finetuning_config, monkeypatch, keep_all_models
):
    """Of models that were removed, they would be lost."""
    original, preempted = Trainer.train, []

    def train(self, *arguments, seed, **options):
        if seed == 42:
            raise DivergedError("loss not finite")
        if seed in preempted:
            raise PreemptedError("SIGTERM")
        return original(self, *arguments, seed=seed, **options)

    monkeypatch.setattr(Trainer, "train", train)
    settings = {"num_train_epochs": 1, "keep_all_models": keep_all_models}
    config = make_finetuning_config(**settings, num_trials=3)
    first = finetune_run.run(config, quiet)
    preempted.append(44)
    with pytest.raises(PreemptedError):
        finetune_run.run(config, quiet)
    path = pathlib.Path(config.results_dir, "cola_results.json")
    saved = read_results(path).trials
    assert [each.status for each in saved] == [each.status for each in first]
    assert [each.metrics for each in saved] == [each.metrics for each in first]
    # Not those of trials that the run has no more.
    finetune_run.run(make_finetuning_config(**settings, num_trials=2), quiet)
    assert [each.trial for each in read_results(path).trials] == [1, 2]


def test_trials_of_another_vocabulary_are_not_reused(
    make_finetuning_config, tiny_data, tmp_path
):
    """Random weights record no vocabulary, and the size may be the same."""
    settings = {"num_train_epochs": 1, "keep_all_models": False, "init_checkpoint": "random"}
    config = make_finetuning_config(**settings, num_trials=2)
    finetune_run.run(config, quiet)
    before = provenance_of(config)
    # Nearly all words are unknown.
    vocab_file = tmp_path / "other.txt"
    vocab_file.write_text((tiny_data / "vocab.txt").read_text().replace("\nw", "\nv"))
    lines: list[str] = []
    other = make_finetuning_config(**settings, num_trials=2, vocab_file=str(vocab_file))
    finetune_run.run(other, lines.append)
    assert not any(line.startswith("Reusing its results") for line in lines)
    after = provenance_of(config)
    assert {name for name in after if after[name] != before[name]} == {"hash", "vocabulary"}


def test_an_evaluation_removes_no_models(make_finetuning_config):
    config = make_finetuning_config(num_train_epochs=1, num_trials=2)
    finetune_run.run(config, quiet)
    evaluation = make_finetuning_config(
        num_train_epochs=1, num_trials=2, do_train=False, keep_all_models=False
    )
    finetune_run.run(evaluation, quiet)
    assert os.path.isdir(f"{config.model_dir}_1")


def test_an_evaluation_of_missing_models_leaves_the_results(make_finetuning_config):
    config = make_finetuning_config(num_train_epochs=1, num_trials=2)
    finetune_run.run(config, quiet)
    results = pathlib.Path(config.results_dir, "cola_results.json")
    before = results.read_bytes()
    weights = next(pathlib.Path(f"{config.model_dir}_2").glob("ckpt-*.data*"))
    evaluation = make_finetuning_config(num_train_epochs=1, num_trials=2, do_train=False)
    for change, message in (
        (lambda: weights.write_bytes(b""), "model_2 has checkpoints, but none of them is"),
        (lambda: shutil.rmtree(weights.parent), r"no fine-tuned model in .*_2, of trial 2"),
    ):
        change()
        with pytest.raises(UserError, match=message):
            finetune_run.run(evaluation, quiet)
        assert results.read_bytes() == before


def test_an_evaluation_of_trials_that_differ_leaves_the_results(
    make_finetuning_config, finished
):
    changes = {"learning_rate": 1e-3, "num_train_epochs": 1}
    config = make_finetuning_config(**changes)
    finetune_run.run(config, quiet)
    results = pathlib.Path(config.results_dir, "cola_results.json")
    before = results.read_bytes()
    message = (
        r"models of trial 1 \(before\) and trial 2 \(now\) were trained differently, .*: "
        r"learning_rate: 0\.001 before, 0\.005 now; num_train_epochs: 1\.0 before, 2\.0 now\. F"
    )
    with pytest.raises(UserError, match=message):
        finetune_run.run(make_finetuning_config(num_trials=2, do_train=False), quiet)
    assert results.read_bytes() == before


def test_results_that_those_of_other_models_replace_are_told_of(
    make_finetuning_config, finished, capsys
):
    path = make_finetuning_config().results_dir + "/cola_results.json"
    own, copy = f"{finished}/model", finished / "copy"
    shutil.copytree(f"{own}_1", copy)
    message = f"{path} had the results of training {own}_…; those of "

    def said(**settings) -> str:
        finetune_run._warn_of_replaced_results(make_finetuning_config(**settings))
        return capsys.readouterr().err

    assert message not in said(num_trials=2)
    assert f"{message}--model_dir={finished}/b replace" in said(model_dir=f"{finished}/b")
    evaluates = {"do_train": False, "init_checkpoint": str(copy)}
    assert f"{message}--init_checkpoint={copy} replace" in said(**evaluates)
    assert message not in said(do_train=False, init_checkpoint=f"{own}_1")
    assert not said(model_dir=f"{finished}/c", results_dir=f"{finished}/c_results")


def test_results_that_another_program_wrote_meanwhile_are_told_of(
    make_finetuning_config, finished, capsys
):
    path = pathlib.Path(make_finetuning_config().results_dir, "cola_results.json")
    theirs = path.read_bytes()
    path.unlink()
    other = make_finetuning_config(model_dir=f"{finished}/other")

    def finish_the_other_run(message: str) -> None:
        if message == "\nTrial 1, seed 42":
            assert not capsys.readouterr().err
            path.write_bytes(theirs)

    finetune_run.run(other, finish_the_other_run)
    message = f"{path} had the results of training {finished}/model_…; those of "
    assert f"{message}--model_dir={finished}/other replace" in capsys.readouterr().err


def test_results_behind_a_link_are_those_of_their_models(
    make_finetuning_config, finished, tmp_path, capsys
):
    path = pathlib.Path(make_finetuning_config().results_dir)
    disk, models = tmp_path / "disk" / "deep", tmp_path / "models"
    disk.mkdir(parents=True)
    path.rename(disk / "results")
    path.symlink_to(disk / "results")
    finetune_run._warn_of_replaced_results(make_finetuning_config(num_trials=2))
    models.mkdir()
    (finished / "model_1").rename(models / "one")
    (finished / "model_1").symlink_to(models / "one")
    evaluates = {"do_train": False, "init_checkpoint": f"{finished}/model_1"}
    finetune_run._warn_of_replaced_results(make_finetuning_config(**evaluates))
    assert "had the results of training" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "eval_steps", "warned"),
    [
        ({"keep_best": True}, 10, "--keep_best has no effect: with an evaluation every 10"),
        ({"early_stopping_patience": 2}, 11, "more than 3 evaluations, but the run has 1"),
        ({"early_stopping_patience": 2}, 4, "--early_stopping_patience=2 has no effect: "),
        ({"early_stopping_patience": 2}, 3, None),
        ({"keep_best": True}, 9, None),
        ({}, 10, None),
    ],
)
def test_evaluations_that_are_too_few_to_choose_or_stop_are_warned_of(
    make_finetuning_config, capsys, changes, eval_steps, warned
):
    warn_once.cache_clear()
    config = make_finetuning_config(**changes)
    trial_session._warn_of_few_evaluations(config, eval_steps, num_train_steps=10)
    said = capsys.readouterr().err
    assert (warned or "") in said
    assert bool(said) == bool(warned)


def test_a_single_step_which_learns_nothing_is_warned_of(make_finetuning_config, capsys):
    warn_once.cache_clear()
    for power, warned in ((0.0, False), (1.0, True)):
        settings = {"num_train_epochs": 0.1, "lr_decay_power": power, "do_eval": False}
        config = make_finetuning_config(**settings, overwrite=True)
        (result,) = finetune_run.run(config, quiet)
        assert result.steps == 1
        (logged,) = read_log(f"{config.model_dir}_1/train_log.jsonl")
        assert (logged["learning_rate"] == 0) == warned
        said = "--num_train_epochs=0.1 and --train_batch_size=8 give a single step, at which"
        assert (said in capsys.readouterr().err) == warned


def test_no_weights_are_chosen_on_scores_that_are_undefined(make_finetuning_config, tmp_path):
    """Such as the correlation with labels that are all equal."""
    for split, count in (("train", 10), ("dev", 3)):
        rows = "".join(f"w{i}\t{i if split == 'train' else 1}\n" for i in range(count))
        (tmp_path / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    config = make_finetuning_config(
        task_names=("stars",),
        own_task_kind="regression",
        own_task_files=f"train={tmp_path}/train.tsv,dev={tmp_path}/dev.tsv",
        keep_best=True,
        num_train_epochs=1,
    )
    said: list[str] = []
    (result,) = finetune_run.run(config, said.append)
    assert "No dev score was finite: the last weights are kept." in said
    assert (result.best_step, result.chosen_on) == (None, [])


def test_a_run_without_a_finished_trial_has_failed():
    finished = TrialResult(trial=1, seed=1)
    diverged = TrialResult(
        trial=2, seed=2, status="diverged", reason="loss not finite at step 3"
    )
    require_finished([])
    require_finished([diverged, finished])
    with pytest.raises(
        UserError, match=r"^No trial has finished: loss not .* 3\. Reduce --lear"
    ):
        require_finished([diverged, diverged])


def test_a_diverged_seed_is_reported_and_the_others_go_on(make_finetuning_config, monkeypatch):
    original = finetune_run.Trainer.train

    def train(self, *arguments, seed, **options):
        if seed == 42:
            raise DivergedError("train/loss not finite at step 3")
        return original(self, *arguments, seed=seed, **options)

    monkeypatch.setattr(finetune_run.Trainer, "train", train)
    config = make_finetuning_config(num_trials=2)
    first, second = finetune_run.run(config, quiet)
    assert (first.status, first.reason) == ("diverged", "train/loss not finite at step 3")
    assert second.finished
    text = pathlib.Path(config.results_txt).read_text()
    assert "1 of 2 trials finished" in text
    to_predict = f"{config.raw_data_dir}/cola/test.tsv"
    none = make_finetuning_config(do_predict=True, predict_file=to_predict)
    with pytest.raises(UserError, match=r"^No trial has finished: .* Reduce --learning_rate"):
        finetune_run.run(none, quiet)


def test_tasks_train_together(make_finetuning_config):
    config = make_finetuning_config(task_names=("cola", "chunk"))
    # Of an earlier run with folds, whose scores this one replaces.
    folds = pathlib.Path(config.results_dir, "cola,chunk_folds.json")
    folds.parent.mkdir(parents=True)
    folds.write_text("{}")
    (result,) = finetune_run.run(config, quiet)
    assert not folds.exists()
    assert set(result.metrics) == {"cola/dev", "chunk/dev"}
    assert result.steps == 32
    # The files of a run on one of the tasks may be in the folder, too.
    run = read_finetuning_run(os.path.join(config.results_dir, "cola,chunk_results.json"))
    assert [confusion.title for confusion in run.confusions] == ["cola/dev"]
    assert not list(pathlib.Path(config.results_dir).glob("cola_dev_1_*"))


def test_a_model_with_more_embeddings_than_tokens_is_finetuned(
    make_finetuning_config, finetuning_data, tiny_data, tmp_path, capsys
):
    data = tmp_path / "data"
    write_model(data / "models" / "m", tiny_data, vocab_size=43)
    (data / "finetuning_data").symlink_to(finetuning_data / "finetuning_data")
    config = make_finetuning_config(data_dir=str(data), num_train_epochs=1)
    assert config.vocab_size == config.encoder.vocab_size == 43
    (result,) = finetune_run.run(config, quiet)
    assert np.isfinite(result.metrics["cola/dev"]["loss"])
    assert "fewer than --vocab_size=43: the last 3 embeddings" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"--vocab_size is 39, but .* has 40 entries"):
        finetune_run.run(dataclasses.replace(config, vocab_size=39), quiet)


def test_folds_hold_out_every_example_once(make_finetuning_config):
    config = make_finetuning_config(num_folds=4)
    results = finetune_run.run(config, quiet)
    assert [result.fold for result in results] == [1, 2, 3, 4]
    assert all(set(result.metrics) == {"cola/held_out"} for result in results)
    assert "mean" in pathlib.Path(config.results_txt).read_text()


def test_the_weights_of_a_fold_are_not_chosen_on_the_examples_that_are_reported(
    make_finetuning_config, monkeypatch
):
    seen = []
    original = Trainer.evaluate

    def evaluate(self, task, data):
        seen.append((data.split, tuple(example.eid for example in data.examples)))
        return original(self, task, data)

    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    config = make_finetuning_config(num_folds=2, keep_best=True, selection_fraction=0.25)
    results = finetune_run.run(config, quiet)
    folder = pathlib.Path(config.results_dir)
    folds = json.loads((folder / "cola_folds.json").read_text())["folds"]
    assert set(seen) == {("selection", tuple(fold["selection"])) for fold in folds}
    assert sorted(folds[0]["held_out"] + folds[1]["held_out"]) == list(range(64))
    for result, fold in zip(results, folds, strict=True):
        parts = [fold[name] for name in ("train", "selection", "held_out")]
        assert sorted(i for part in parts for i in part) == list(range(64))
        assert result.examples == {"train": 24, "selection": 8, "held_out": 32}
        assert result.chosen_on == ["cola/selection"]
    text = (folder / "cola_results.txt").read_text()
    assert "(chosen on cola/selection)" in text
    assert "examples: 24 train, 8 selection, 32 held_out" in text
    # Other folds would score examples that these models were trained on.
    other = make_finetuning_config(
        num_folds=2, keep_best=True, selection_fraction=0.25, do_train=False, seed=43
    )
    with pytest.raises(UserError, match="different examples than those of fold 1"):
        finetune_run.run(other, quiet)


def test_the_questions_about_a_paragraph_are_in_one_fold(make_finetuning_config, tmp_path):
    folder = tmp_path / "raw" / "squadv1"
    folder.mkdir(parents=True)
    paragraphs = [
        {
            "context": f"w{i} w{i + 1} w{i + 2}",
            "qas": [
                {
                    "id": f"{i} {j}",
                    "question": "w0",
                    # The second question of a paragraph cannot be trained on.
                    "answers": [{"text": f"w{i}" if j != 1 else "gone", "answer_start": 0}],
                }
                for j in range(1 + i % 3)
            ],
        }
        for i in range(9)
    ]
    content = json.dumps({"data": [{"paragraphs": paragraphs}]})
    (folder / "train.json").write_text(content)
    config = make_finetuning_config(
        task_names=("squadv1",), raw_data_dir=str(tmp_path / "raw"), num_folds=3
    )
    (task,) = build_tasks(config, CachedTokenizer(load_vocabulary(config.vocab_file)))
    runs = fold_runs(config, [task], TaskData(config, quiet))
    assert len({run.num_examples for run in runs}) == 1
    for run in runs:
        train = {e.context.text for e in run.train_data["squadv1"].examples}
        held_out = {e.context.text for e in run.held_out.examples}
        assert len(train | held_out) == 9
        assert not train & held_out
        assert all(e.orig_answer_text for e in run.train_data["squadv1"].examples)
        assert [e.eid for e in run.held_out.examples] == list(run.examples.held_out)
        answers = {e.answers for e in run.held_out.examples}
        assert ("gone",) in answers
    assert sum(len(run.held_out.examples) for run in runs) == 18


def test_test_splits_and_files_are_predicted(make_finetuning_config, tmp_path, capsys):
    unlabeled = tmp_path / "new.tsv"
    unlabeled.write_text("index\tsentence\n0\tw1 w2\n1\tw20 w23 한국어\n")
    config = make_finetuning_config(
        write_test_outputs=True,
        do_predict=True,
        predict_file=str(unlabeled),
        predict_output=str(tmp_path / "out.tsv"),
        num_train_epochs=12,
    )
    finetune_run.run(config, quiet)
    folder = tmp_path / "results" / "test_predictions"
    submission = (folder / "glue_1" / "CoLA.tsv").read_text().splitlines()
    assert submission[0] == "index\tprediction"
    assert len(submission) == 6
    pickled = pickle.loads((folder / "cola_test_1_predictions.pkl").read_bytes())
    assert sorted(pickled) == [0, 1, 2, 3, 4]
    assert pickled[0].shape == (2,)
    header, first, second = (tmp_path / "out.tsv").read_text().splitlines()
    column = header.split("\t").index("prediction")
    assert [line.split("\t")[column] for line in (first, second)] == ["1", "0"]
    assert "of the words of cola predict are unknown ([UNK])" in capsys.readouterr().err


def test_the_best_of_the_saved_models_predicts(tmp_path, capsys):
    runs = [TrialRun(number, number, f"{tmp_path}/m_{number}") for number in range(1, 5)]
    for run in runs[:3]:
        pathlib.Path(run.model_dir).mkdir()
    restored = []
    trainer = types.SimpleNamespace(restore=restored.append)

    def restore(*scores: float | None) -> str:
        results = [
            TrialResult(
                trial=run.number,
                seed=run.seed,
                status="diverged" if score == -1 else "ok",
                metrics={} if score is None else {"t/dev": {"f1": score}},
                main={"t/dev": "f1"},
            )
            for run, score in zip(runs, scores, strict=True)
        ]
        finetune_run._restore_best(trainer, rank_trials(runs, results))
        return restored[-1]

    # The last one has no model any more.
    assert restore(50.0, 70.0, 60.0, 80.0) == runs[1].model_dir
    gone = "Trial 2 predicts: the model of Trial 4, which has a better dev score, was removed"
    assert gone in capsys.readouterr().err
    assert restore(50.0, -1.0, math.nan, 40.0) == runs[0].model_dir
    with pytest.raises(UserError, match="models of all finished trials have been removed"):
        restore(-1.0, -1.0, -1.0, 80.0)
    with pytest.raises(UserError, match="no trial finished"):
        restore(-1.0, -1.0, -1.0, -1.0)
    assert not capsys.readouterr().err
    assert restore(None, None, None, None) == runs[0].model_dir
    assert "scores none of the 3 trials, so Trial 1 predicts" in capsys.readouterr().err


def recorded_metrics(folder: pathlib.Path) -> dict:
    """Returns the metrics of the first trial of a finished run."""
    content = json.loads((folder / "results" / "cola_results.json").read_text())
    return content["trials"][0]["metrics"]


def test_evaluates_a_trained_model_alone(make_finetuning_config, finished):
    trained = recorded_metrics(finished)
    evaluation = make_finetuning_config(do_train=False, seed=99)
    (evaluated,) = finetune_run.run(evaluation, quiet)
    assert evaluated.metrics == trained
    assert evaluated.steps == 16  # those of the training, which the results still tell
    assert evaluated.seconds > 0
    assert evaluated.seed == make_finetuning_config().seed  # that of the model


def test_a_run_that_only_predicts_in_bfloat16_limits_threads(
    make_finetuning_config, finished, monkeypatch
):
    limited, told = [], []
    monkeypatch.setattr(finetune_run, "limit_operation_threads", lambda: limited.append(True))
    monkeypatch.setattr(bfloat16, "_is_emulated", lambda cpu_info: True)
    monkeypatch.setattr(bfloat16, "warn_once", told.append)
    for precision, expected in (("float32", []), ("mixed_bfloat16", [True])):
        finetune_run.run(make_finetuning_config(do_train=False, precision=precision), quiet)
        assert limited == expected
        assert len(told) == len(expected)


def test_scores_on_a_single_label_are_warned_of(
    make_finetuning_config, finetuning_data, finished, capsys
):
    raw = finished / "raw"
    shutil.copytree(finetuning_data / "finetuning_data", raw)
    sentences = "w1", "w2 w3", "w4"
    dev = "".join(f"src\t1\t\t{sentence}\n" for sentence in sentences)
    (raw / "cola" / "dev.tsv").write_text(dev)
    finetune_run.run(make_finetuning_config(do_train=False, raw_data_dir=str(raw)), quiet)
    assert "cola dev: all 3 examples have the label '1', so" in capsys.readouterr().err


def test_inputs_that_differ_from_those_of_training_are_warned_of(
    make_finetuning_config, finished, capsys
):
    other = make_finetuning_config(do_train=False, max_seq_length=8, length_buckets=(8,))
    finetune_run.run(other, quiet)
    told = "prepared differently, so its scores and predictions are not those of its training: "
    assert f"{told}max_seq_length: 16 before, 8 now. Pass" in capsys.readouterr().err


def test_evaluates_the_checkpoint_that_is_given(make_finetuning_config, finished, capsys):
    config = make_finetuning_config()
    trained = recorded_metrics(finished)
    other = {"do_train": False, "model_dir": str(finished / "untrained"), "seed": 99}
    for given in (f"{config.model_dir}_1", f"{config.model_dir}_1/ckpt-16"):
        evaluation = make_finetuning_config(**other, init_checkpoint=given)
        (evaluated,) = finetune_run.run(evaluation, quiet)
        assert (evaluated.metrics, evaluated.seed) == (trained, config.seed)
    assert "prepared differently" not in capsys.readouterr().err
    several = make_finetuning_config(**other, init_checkpoint=given, num_trials=3)
    assert several.num_trials == 1
    assert "--num_trials=3 has no effect: --do_train=false" in capsys.readouterr().err
    for name in ("huggingface", "tf1"):
        converted = str(finished / name)
        source = f"{config.model_dir}_1"
        conversion = ConversionConfig(source=source, target_format=name, output_dir=converted)
        convert(conversion, (FINETUNING,), describe_task, quiet)
        evaluation = make_finetuning_config(**other, init_checkpoint=converted)
        (evaluated,) = finetune_run.run(evaluation, quiet)
        assert evaluated.metrics == {"cola/dev": pytest.approx(trained["cola/dev"])}
    copy = finished / "pretrained"
    shutil.copytree(config.pretrained_model_dir, copy)
    with pytest.raises(UserError, match=r"--init_checkpoint=.*is not a fine-tuned model"):
        finetune_run.run(make_finetuning_config(**other, init_checkpoint=str(copy)), quiet)
    with pytest.raises(UserError, match="no fine-tuned heads to evaluate"):
        make_finetuning_config(**other, init_checkpoint=config.pretrained_model_dir)
    with pytest.raises(UserError, match="--num_folds"):
        make_finetuning_config(**other, init_checkpoint=given, num_folds=2)


def test_trials_of_the_authors_code_predict(make_finetuning_config, finished):
    config = make_finetuning_config()
    models = finished / "authors"
    for trial in (1, 2):
        conversion = ConversionConfig(
            source=f"{config.model_dir}_{trial}",
            target_format="tf1",
            output_dir=f"{models}_{trial}",
        )
        convert(conversion, (FINETUNING,), describe_task, quiet)
    predictions = []
    for model_dir in (config.model_dir, str(models)):
        for ensemble_size in (1, 2):
            output = finished / f"{len(predictions)}.jsonl"
            evaluation = make_finetuning_config(
                do_train=False,
                num_trials=2,
                model_dir=model_dir,
                ensemble_size=ensemble_size,
                do_predict=True,
                predict_file=f"{config.raw_data_dir}/cola/test.tsv",
                predict_output=str(output),
            )
            finetune_run.run(evaluation, quiet)
            predictions.append(output.read_text())
    assert predictions[:2] == predictions[2:]
    assert predictions[0] != predictions[1]


def test_a_converted_model_predicts_numbers_of_its_own_range_alone(
    make_finetuning_config, tmp_path
):
    train = tmp_path / "train.csv"
    train.write_text("text,label\n" + "".join(f"w{i},{i}\n" for i in range(8)))
    spec = {"name": "stars", "kind": "regression", "files": {"train": str(train)}}
    config = make_finetuning_config(task_names=("stars",), task_spec=json.dumps(spec))
    finetune_run.run(config, quiet)
    source, converted = f"{config.model_dir}_1", str(tmp_path / "huggingface")
    conversion = ConversionConfig(
        source=source, target_format="huggingface", output_dir=converted
    )
    convert(conversion, (FINETUNING,), describe_task, quiet)

    def evaluate(**changes) -> None:
        finetune_run.run(
            make_finetuning_config(
                task_names=("stars",),
                task_spec=json.dumps({**spec, **changes}),
                do_train=False,
                model_dir=str(tmp_path / "untrained"),
                init_checkpoint=converted,
            ),
            quiet,
        )

    evaluate()
    with pytest.raises(
        UserError, match=r"huggingface was trained on .* to 7\.0, but .* 9\.0\."
    ):
        evaluate(max_label=9)


def test_a_folder_that_another_program_trains_into_is_left_alone(
    make_finetuning_config, tmp_path
):
    config = make_finetuning_config()
    lock = lock_model_dir(config.model_dir, "", Workers(tf.distribute.get_strategy()))
    with lock, pytest.raises(UserError, match=r"Another program .* with --model_dir"):
        finetune_run.run(config, quiet)
    assert not (tmp_path / "model_1").exists()


@pytest.mark.parametrize("missing", ["train", "dev", "test"])
def test_a_missing_split_is_told_before_anything_is_trained(
    make_finetuning_config, finetuning_data, tmp_path, missing
):
    raw = tmp_path / "raw"
    (raw / "cola").mkdir(parents=True)
    for split in {"train", "dev", "test"} - {missing}:
        source = finetuning_data / "finetuning_data" / "cola" / f"{split}.tsv"
        (raw / "cola" / f"{split}.tsv").write_text(source.read_text())
    config = make_finetuning_config(raw_data_dir=str(raw), write_test_outputs=True)
    flag = "--write_test_outputs: " if missing == "test" else ""
    with pytest.raises(UserError, match=rf"^{flag}.*{missing}\.tsv"):
        finetune_run.run(config, quiet)
    assert not (tmp_path / "model_1").exists()


def test_a_report_tells_that_a_model_is_not_the_one_of_the_scores(finished):
    results = finished / "results" / "cola_results.json"
    assert read_finetuning_run(results).notes == []
    path = finished / "model_2" / "config.json"
    content = without_seal(json.loads(path.read_text()), path)
    content["hyperparameters"]["learning_rate"] = 1.0
    path.write_text(json.dumps(sealed(content)))
    (note,) = read_finetuning_run(results).notes
    assert note.startswith("The log and the settings of trial 2 may be of another run")
