"""A run with the options of the training loss and frozen layers, from weights to results."""

import json
import pathlib

import numpy as np
import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.distribution.context import create_context
from electra_tf.util.console import discard
from finetune.config.finetuning import FinetuningConfig
from finetune.run import run
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
        max_seq_length=16,
        bucket_by_length=False,
        train_batch_size=8,
        learning_rate=5e-3,
        num_train_epochs=1,
        class_weights="balanced",
        label_smoothing=0.1,
        focal_gamma=1.0,
        freeze_layers=1,
    )
    run(config, discard)
    return config


def weights(trainer: Trainer) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in trainer.model.variables}


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
