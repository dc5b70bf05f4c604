"""What is killed: command lines of the programs, and the data that they read.

`{data}` stands for the folder of `write_data`, `{run}` for that of a run.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.processes import ROOT

# Differences of the weights of several devices, whose sums have no fixed order.
SEVERAL_DEVICES = 1e-6
_MAX_TOKENS, _NUM_ROWS = 12, 40
_TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}


class Case(NamedTuple):
    """Commands that are killed, started again until each has ended, and compared.

    Attributes:
        name: what they do.
        commands: program and flags of each.
        tolerance: allowed difference of weights and metrics.
        trains: whether they train.
        done: message of a start after everything has been written.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    tolerance: float = 0.0
    trains: bool = True
    done: str | None = None


def write_data(folder: str) -> None:
    """Writes records, a pre-trained model, a task and a corpus."""
    import numpy as np

    from tests.conftest import VOCAB_SIZE, write_tiny_data
    from tests.finetune.conftest import write_model

    data = pathlib.Path(folder)
    write_tiny_data(data)
    write_model(data / "models/m", data, model_hparam_overrides=_TINY)
    generator = np.random.default_rng(3)
    for split in ("train", "dev"):
        rows = [
            " ".join(f"w{15 * (n % 2) + i}" for i in generator.integers(0, 15, _MAX_TOKENS - 2))
            + f",{n % 2}"
            for n in range(_NUM_ROWS if split == "train" else 10)
        ]
        (data / f"{split}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    corpus = data / "corpus"
    corpus.mkdir()
    for number in range(6):
        words = generator.integers(0, VOCAB_SIZE - 5, 3000)
        lines = [" ".join(f"w{i}" for i in line) for line in words.reshape(-1, 10)]
        (corpus / f"{number}.txt").write_text("\n".join(lines) + "\n")


def _command(program: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    def spell(value: Any) -> str:
        return json.dumps(value) if isinstance(value, Mapping) else str(value)

    return (program, *(f"--{name}={spell(value)}" for name, value in settings.items()))


def pretraining_settings(**changes: Any) -> dict[str, Any]:
    """Returns the hyperparameters of a pre-training of ten steps."""
    return {
        "data_dir": "{data}",
        "model_name": "tiny",
        "model_dir": "{run}/model",
        "vocab_size": 40,
        "embedding_size": 8,
        "model_hparam_overrides": _TINY,
        "generator_layers": 1.0,
        "generator_hidden_size": 0.5,
        "max_seq_length": 16,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "num_train_steps": 10,
        "num_warmup_steps": 2,
        "iterations_per_loop": 2,
        "save_checkpoints_steps": 2,
        "keep_checkpoint_max": 3,
        "log_steps": 1,
        "shuffle_buffer_size": 16,
        "learning_rate": 1e-2,
        "report": False,
        **changes,
    }


def _pretraining(**changes: Any) -> tuple[str, ...]:
    return _command("run_pretraining.py", pretraining_settings(**changes))


def _finetuning(**changes: Any) -> tuple[str, ...]:
    settings = {
        "data_dir": "{data}",
        "model_name": "m",
        "task_names": "mine",
        "own_task_kind": "classification",
        "own_task_files": "train={data}/train.csv,dev={data}/dev.csv",
        "own_task_columns": "text=text,label=label",
        "model_dir": "{run}/model",
        "results_dir": "{run}/results",
        "preprocessed_data_dir": "{run}/features",
        "max_seq_length": 16,
        "length_buckets": "16",
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "learning_rate": 5e-3,
        "num_train_epochs": 2,
        "save_checkpoints_steps": 2,
        "iterations_per_loop": 2,
        "log_steps": 1,
        "report": False,
    }
    return _command("run_finetuning.py", settings | changes)


_MIRRORED = {"strategy": "mirrored", "num_virtual_cpus": 2}
_EVAL = {"eval_tfrecords": "{data}/pretrain_tfrecords/*", "num_eval_steps": 2}
_BUILD = (
    "build_pretraining_dataset.py",
    "--corpus-dir={data}/corpus",
    "--vocab-file={data}/vocab.txt",
    "--output-dir={run}/records",
    "--max-seq-length=16",
)
CASES = (
    Case("pre-training, float32", (_pretraining(),)),
    Case("pre-training, bfloat16", (_pretraining(precision="mixed_bfloat16"),)),
    Case("pre-training, float16", (_pretraining(precision="mixed_float16"),)),
    Case("pre-training, accumulation", (_pretraining(gradient_accumulation_steps=2),)),
    Case("pre-training, two replicas", (_pretraining(**_MIRRORED),), SEVERAL_DEVICES),
    Case(
        "pre-training of an MLM, then its evaluation",
        (
            _pretraining(objective="mlm", **_EVAL),
            _pretraining(objective="mlm", **_EVAL, do_train=False, do_eval=True),
        ),
    ),
    Case("fine-tuning, float32, two trials", (_finetuning(num_trials=2),)),
    Case("fine-tuning, bfloat16", (_finetuning(precision="mixed_bfloat16"),)),
    Case("fine-tuning, float16", (_finetuning(precision="mixed_float16"),)),
    Case(
        "fine-tuning, accumulation, the best checkpoint",
        (_finetuning(gradient_accumulation_steps=2, eval_steps=2, keep_best=True),),
    ),
    Case("fine-tuning, two replicas", (_finetuning(**_MIRRORED),), SEVERAL_DEVICES),
    Case(
        "export",
        (
            (
                "export_saved_model.py",
                "--model_dir={data}/models/m",
                "--export_dir={run}/exported",
                "--version=1",
            ),
        ),
        trains=False,
        done="exists and is not overwritten",
    ),
    Case(
        "conversion",
        (
            (
                "convert_checkpoint.py",
                "--from={data}/models/m",
                "--to_format=huggingface",
                "--output={run}/converted",
                "--overwrite",
            ),
        ),
        trains=False,
    ),
    Case("records, one process", ((*_BUILD, "--overwrite"),), trains=False),
    Case(
        "records, two processes, held out",
        ((*_BUILD, "--overwrite", "--num-processes=2", "--eval_fraction=0.1"),),
        trains=False,
    ),
    Case(
        "vocabulary",
        (
            (
                "build_vocabulary.py",
                f"--corpus-dir={ROOT}/demo/corpus_heldout",
                "--vocab-size=200",
                "--output-file={run}/vocab.txt",
                "--overwrite",
            ),
        ),
        trains=False,
    ),
)
