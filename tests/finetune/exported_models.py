"""Folders of fine-tuned models with random weights, of every kind of task."""

import json
import pathlib
from collections.abc import Sequence
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.saved_config import load_saved_config
from electra_tf.inference.export.config import select_fields
from electra_tf.interop.model_checkpoint import TASKS
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution import context
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport
from finetune.model import FinetuningModel
from finetune.tasks.base import SplitData, Task
from finetune.tasks.registry import restore_tasks
from finetune.trainer import Trainer
from finetune.trials.model_folders import run_hyperparameters
from finetune.trials.trial_runs import TrialRun
from tests.conftest import SPECIAL_TOKENS

WORDS = (
    "the old bridge over river was built in 1895 - 1943 by anna berg and her two sons who "
    "when what it cafe stands here ( ) . , ? japan ##ese ##s x y z b ##er ##g"
)


class NoData:
    """Stands for `finetune.task_data.TaskData`, of which only digests are asked."""

    content_fingerprints: ClassVar[dict[str, str]] = {}


def write_finetuned(folder: pathlib.Path, descriptions: dict[str, dict], **settings) -> str:
    """Writes a model of random weights for tasks; returns its folder.

    Args:
        folder: gets the vocabulary, of `WORDS`, and the model.
        descriptions: of the tasks, by name.
        settings: hyperparameters.
    """
    vocab_file = folder / "given_vocab.txt"
    tokens = [*SPECIAL_TOKENS, *dict.fromkeys(WORDS.split())]
    vocab_file.write_text("\n".join(tokens) + "\n")
    names = tuple(descriptions)
    config = FinetuningConfig.create(
        data_dir=str(folder),
        model_name="m",
        task_names=names,
        task_spec=str(_specs(folder, descriptions)),
        vocab_file=str(vocab_file),
        model_hparam_overrides={
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 32,
        },
        embedding_size=8,
        **{"max_seq_length": 32, **settings},
    )
    tokenizer = CachedTokenizer(load_vocabulary(vocab_file))
    tasks = restore_tasks(config, tokenizer, descriptions)
    keras.utils.set_random_seed(3)
    model = FinetuningModel(config.encoder, tasks, config.precision)
    for variable in model.trainable_variables:
        # Far from initialization, answers differ from input to input.
        noise = np.random.default_rng(len(variable.path)).normal(0, 0.5, variable.shape)
        variable.assign(variable + noise)
    step = tf.Variable(1, dtype=tf.int64)
    model_dir = str(folder / "model_1")
    checkpoints = CheckpointDirectory(model_dir, model, step)
    run = TrialRun(number=1, seed=1, model_dir=model_dir)
    checkpoints.write_description(run_hyperparameters(config, run, tasks, NoData()), vocab_file)
    checkpoints.save()
    return model_dir


def _specs(folder: pathlib.Path, descriptions: dict[str, dict]) -> pathlib.Path:
    specs = [
        {"name": name, "kind": description["kind"], "files": {"train": "gone.tsv"}}
        for name, description in descriptions.items()
    ]
    path = folder / "specs.json"
    path.write_text(json.dumps(specs))
    return path


class InProcess:
    """What the project itself predicts with a model of `write_finetuned`."""

    def __init__(self, model_dir: str) -> None:
        saved = load_saved_config(model_dir).hyperparameters
        config = FinetuningConfig(**select_fields(FinetuningConfig, saved))
        self.config = config
        tokenizer = CachedTokenizer(load_vocabulary(config.vocab_file))
        self.tasks = {t.name: t for t in restore_tasks(config, tokenizer, saved[TASKS])}
        self._trainer = Trainer(
            config, list(self.tasks.values()), context.create_context(config)
        )
        self._trainer.restore(model_dir)
        self.model = self._trainer.model

    def predictions(self, name: str, examples: Sequence) -> list[dict]:
        """Returns the predictions of a task for examples."""
        task: Task = self.tasks[name]
        rows = task.featurize(examples, is_training=False, report=DataReport(name, "test"))
        data = SplitData("test", examples, rows, labeled=False)
        return task.predictions(data, self._trainer.predict(task, data))
