"""A folder with a pre-trained tiny model and small tasks in the authors' layout."""

import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from finetune.config.finetuning import FinetuningConfig
from finetune.results.plots import confusion, learning_curves, reliability_diagram
from tests.conftest import tiny_settings

NUM_TRAIN, NUM_DEV = 64, 21


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    """Leaves files of figures empty, since to draw them takes as long as to train."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (confusion, learning_curves, reliability_diagram):
            patch.setattr(module, "save_figure", lambda _, path: pathlib.Path(path).touch())
        yield


@pytest.fixture(scope="session")
def finetuning_data(tmp_path_factory, tiny_data) -> pathlib.Path:
    """`models/m` (a checkpoint and its description) and `finetuning_data/{cola,chunk}`.

    An acceptable sentence of cola has words below w15, another one those from w15 on.
    """
    folder = tmp_path_factory.mktemp("finetuning")
    write_model(folder / "models" / "m", tiny_data)
    generator = np.random.default_rng(11)
    cola, chunk = folder / "finetuning_data" / "cola", folder / "finetuning_data" / "chunk"
    for task in (cola, chunk):
        task.mkdir(parents=True)
    for split, count in (("train", NUM_TRAIN), ("dev", NUM_DEV), ("test", 5)):
        sentences = [
            [
                f"w{15 * (n % 2) + i}"
                for i in generator.integers(0, 15, generator.integers(2, 12))
            ]
            for n in range(count)
        ]
        (cola / f"{split}.tsv").write_text(_cola_file(sentences, split))
        (chunk / f"{split}.txt").write_text(_chunk_file(sentences))
    return folder


def _cola_file(sentences: list[list[str]], split: str) -> str:
    if split == "test":
        lines = ["index\tsentence"]
        lines += [f"{i}\t{' '.join(words)}" for i, words in enumerate(sentences)]
    else:
        lines = [
            f"src\t{int(int(words[0][1:]) < 15)}\t\t{' '.join(words)}" for words in sentences
        ]
    return "\n".join(lines) + "\n"


def _chunk_file(sentences: list[list[str]]) -> str:
    tags = ("B-NP", "I-NP", "O")
    return (
        "\n\n".join(
            "\n".join(f"{word} X {tags[i % 3]}" for i, word in enumerate(words))
            for words in sentences
        )
        + "\n"
    )


def write_model(model_dir: pathlib.Path, tiny_data: pathlib.Path, **changes) -> None:
    """Writes a pre-trained tiny model: a checkpoint of random weights and its description."""
    import dataclasses

    import keras
    import tensorflow as tf

    from electra_tf.config.pretraining import PretrainingConfig
    from electra_tf.model.batch_types import SpecialTokenIds
    from electra_tf.model_builder import build_model
    from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory

    weights_seed = changes.pop("weights_seed", 1)
    settings = tiny_settings(tiny_data, model_dir.parent)
    shape = {**settings["model_hparam_overrides"], **changes.pop("model_hparam_overrides", {})}
    settings |= {"model_dir": str(model_dir), "model_hparam_overrides": shape, **changes}
    config = PretrainingConfig.create(**settings)
    keras.utils.set_random_seed(weights_seed)
    model = build_model(config, SpecialTokenIds(2, 3, 4))
    step = tf.Variable(7, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(str(model_dir), model, step)
    checkpoints.write_description(dataclasses.asdict(config), tiny_data / "vocab.txt")
    checkpoints.save()


@pytest.fixture
def make_finetuning_config(finetuning_data, tmp_path) -> Callable[..., FinetuningConfig]:
    """Returns a function that makes the configuration of a small run on cola."""

    def make(**overrides) -> FinetuningConfig:
        return FinetuningConfig.create(
            **{**small_settings(finetuning_data, tmp_path), **overrides}
        )

    return make


def small_settings(data_dir: pathlib.Path, folder: pathlib.Path) -> dict:
    """Returns the hyperparameters of a small run on cola.

    Args:
        data_dir: what `finetuning_data` is.
        folder: for models, results and features.
    """
    return {
        "data_dir": str(data_dir),
        "model_name": "m",
        "task_names": ("cola",),
        "model_dir": str(folder / "model"),
        "results_dir": str(folder / "results"),
        "preprocessed_data_dir": str(folder / "features"),
        "max_seq_length": 16,
        "length_buckets": (8, 16),
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "predict_batch_size": 4,
        "learning_rate": 5e-3,
        "layerwise_lr_decay": 1.0,
        "num_train_epochs": 2,
        "log_steps": 4,
        "iterations_per_loop": 4,
    }
