"""A run with options of the loss, frozen layers and windows, from weights to an export."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.saved_config import load_saved_config
from electra_tf.inference.export.config import ExportConfig
from electra_tf.model.batch_types import LossTerm
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.distribution.context import create_context
from electra_tf.training.gradients import refuse_reserved_metrics
from electra_tf.util.console import discard
from finetune.config.finetuning import FinetuningConfig
from finetune.export import load_finetuned
from finetune.model import FinetuningModel, FinetuningOutput
from finetune.run import run
from finetune.task_data import TaskData
from finetune.tasks.registry import build_tasks
from finetune.trainer import Trainer
from tests.finetune.conftest import NUM_DEV


@pytest.fixture(scope="module")
def finished(finetuning_data, tmp_path_factory) -> FinetuningConfig:
    """The configuration of a finished run."""
    folder = tmp_path_factory.mktemp("options")
    config = FinetuningConfig.create(
        data_dir=str(finetuning_data),
        model_name="m",
        task_names=("cola",),
        model_dir=str(folder / "model"),
        results_dir=str(folder / "results"),
        preprocessed_data_dir=str(folder / "features"),
        max_seq_length=8,
        bucket_by_length=False,
        train_batch_size=8,
        learning_rate=5e-3,
        num_train_epochs=1,
        class_weights="balanced",
        label_smoothing=0.1,
        focal_gamma=1.0,
        freeze_layers=1,
        long_text="windows",
        window_stride=3,
    )
    run(config, discard)
    return config


def weights(trainer: Trainer) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in trainer.model.variables}


def test_a_task_called_mean_has_a_loss_of_its_own_in_the_log(finished, monkeypatch):
    tasks = build_tasks(finished, CachedTokenizer(load_vocabulary(finished.vocab_file)))
    model = FinetuningModel(finished.encoder, tasks, "float32")
    monkeypatch.setattr(model, "head_names", ("cola", "mean"))
    losses, ids = tf.constant([1.0, 2.0, 6.0]), tf.constant([0, 1, 1])
    terms = {name: LossTerm(3.0, 1.0, 3.0) for name in model.term_weights({"input_ids": ids})}
    sums = model.metric_sums(FinetuningOutput(terms, losses, {}, ids))
    assert sums["mean_loss"].numpy().tolist() == [8.0, 2.0]
    refuse_reserved_metrics(terms, sums)


def test_frozen_weights_are_those_of_the_checkpoint(finished):
    tasks = build_tasks(finished, CachedTokenizer(load_vocabulary(finished.vocab_file)))
    trainer = Trainer(finished, tasks, create_context(finished), discard)
    trainer.start(finished.seed)
    before = weights(trainer)
    trainer.restore(f"{finished.model_dir}_1")
    after = weights(trainer)
    frozen = {p for p in before if "embeddings" in p or "/layer_0/" in p}
    assert len(frozen) > 16
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert not changed & frozen
    # The bias of the keys has no gradient but that of rounding.
    assert before.keys() - frozen - changed <= {p for p in before if "key/bias" in p}
    assert {v.path for v in trainer.model.trainable_variables} == before.keys() - frozen


def test_an_export_answers_long_texts_like_the_evaluation(finished, tmp_path):
    tasks = build_tasks(finished, CachedTokenizer(load_vocabulary(finished.vocab_file)))
    trainer = Trainer(finished, tasks, create_context(finished), discard)
    model_dir = f"{finished.model_dir}_1"
    trainer.restore(model_dir)
    data = TaskData(finished, discard).get(tasks[0], "dev")
    assert len(data.rows) > len(data.examples)
    predictions = tasks[0].predictions(data, trainer.predict(tasks[0], data))
    saved = load_saved_config(model_dir).hyperparameters
    export = ExportConfig(model_dir=model_dir, export_dir=tmp_path)
    lines: list[str] = []
    servable = load_finetuned(export, saved, lines.append)
    assert "longer than 8 tokens are split into windows, with the mean of" in lines[-1]
    answers = servable.answer_texts(
        {"text": tf.constant([example.text_a for example in data.examples])}
    )
    expected = [list(p["probabilities"].values()) for p in predictions]
    np.testing.assert_allclose(answers["scores"], expected, atol=1e-5)
    labels = [label.decode() for label in answers["label"].numpy()]
    assert labels == [p["prediction"] for p in predictions]


def test_the_same_command_goes_on(finished):
    lines: list[str] = []
    run(finished, lines.append)
    assert any(line.startswith("Resuming from") for line in lines)


def test_results_have_the_calibration(finished):
    folder = pathlib.Path(finished.results_dir)
    results = json.loads((folder / "cola_results.json").read_text())
    metrics = results["trials"][0]["metrics"]["cola/dev"]
    stored = json.loads((folder / "cola_dev_1_calibration.json").read_text())
    assert stored["ece"] == metrics["ece"]
    assert 0 < metrics["ece"] < 100
    assert stored.get("temperature") == metrics.get("temperature")
    assert stored["fitted_on"] == "dev"
    assert sum(stored["bins"]["as_predicted"]["counts"]) == NUM_DEV
    assert (folder / "cola_dev_1_reliability.png").exists()
    assert "ece" in (folder / "cola_results.md").read_text()
