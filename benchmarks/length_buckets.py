r"""Compares fine-tuning with batches padded to length buckets and padded to the maximum.

    python -m benchmarks.length_buckets --data_dir DATA
    python -m benchmarks.length_buckets --data_dir DATA --model_name tiny --seeds 3 \
        --learning_rate 5e-4

DATA/finetuning_data has the tasks' files. Each setting is a process of its own. It first
runs one batch of each length twice; what the first pass takes beyond the second one, tracing
and compiling, counts as compilation. Then both settings are asked by turns, one at a time, to
train on a sample of the batches of their real plans: every k-th in order of length, which has
the plan's mix of lengths. The whole run is extrapolated: its steps at that rate, with the
compilation; evaluation and reading are left out.

With `--seeds`, both settings are fine-tuned completely, from the checkpoint of --model_name,
and their dev scores stand beside each other: they should be the same within noise.
Running it again with the same --output_dir goes on from what is finished.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from absl import flags

from benchmarks.length_buckets_child import Start
from benchmarks.side_by_side import Child, our_command
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.hyperparameters import PRECISIONS
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune import run as finetune_run
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.results.result_text import format_metric
from finetune.results.summary import TrialResult, summarize
from flags.command_line import program

_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder of finetuning_data/ and models/.")
_TASKS = flags.DEFINE_list("tasks", "sst,cola,mrpc", "Tasks to fine-tune on, one by one.")
_MODEL_NAME = flags.DEFINE_string(
    "model_name", None, "Pre-trained model, in DATA_DIR/models; random weights if unset."
)
_MODEL_SIZE = flags.DEFINE_enum(
    "model_size", "small", list(MODEL_SIZES), "Of the random weights; not with --model_name."
)
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file",
    "recipes/vocab/bert_uncased_vocab.txt",
    "Vocabulary of the random weights; not with --model_name.",
)
_PRECISION = flags.DEFINE_enum("precision", "float32", list(PRECISIONS), "Of both settings.")
_STEPS = flags.DEFINE_integer("steps", 60, "Steps a turn.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Turns of each setting.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("train_batch_size", 32, "Examples a step.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "Fixed length.", lower_bound=8)
_SEEDS = flags.DEFINE_integer(
    "seeds", None, "Fine-tune completely with so many seeds instead.", lower_bound=1
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", None, "Peak rate; run_finetuning.py's default if unset.", lower_bound=0.0
)
_EPOCHS = flags.DEFINE_float("num_train_epochs", 3.0, "Of a whole run.", lower_bound=0.01)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "With --seeds: models and results; a temporary folder if unset."
)
_JSON = flags.DEFINE_string("json", None, "File that gets all numbers.")

BUCKETS, FIXED = "buckets", "fixed"


def main() -> None:
    """Prints the table."""
    if not _DATA_DIR.value:
        raise UserError("--data_dir is required: the folder of finetuning_data/")
    if _SEEDS.value and not _MODEL_NAME.value:
        raise UserError(
            "--seeds needs --model_name: random weights learn too little to compare"
        )
    with contextlib.ExitStack() as stack:
        folder = _OUTPUT_DIR.value
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        if _SEEDS.value:
            found = {task: compare_scores(task, folder) for task in _TASKS.value}
            print_scores(found)
        else:
            found = {task: measure(task, folder) for task in _TASKS.value}
            print_rates(found)
    if _JSON.value:
        settings = {
            "model": _MODEL_NAME.value or f"{_MODEL_SIZE.value}, random weights",
            "precision": _PRECISION.value,
            "train_batch_size": _BATCH_SIZE.value,
            "max_seq_length": _LENGTH.value,
            "num_train_epochs": _EPOCHS.value,
            "learning_rate": _LEARNING_RATE.value,
        }
        content = {**settings, "tasks": found}
        write_atomically(_JSON.value, json.dumps(content, indent=2) + "\n")
        print(f"\nJSON: {_JSON.value}")


def create_config(task: str, setting: str, folder: str, **more: Any) -> FinetuningConfig:
    """Returns the configuration of a setting, which writes to `folder` alone."""
    weights = {"model_name": _MODEL_NAME.value}
    if not _MODEL_NAME.value:
        weights = {
            "model_name": "random",
            "init_checkpoint": RANDOM_INIT,
            "model_size": _MODEL_SIZE.value,
            "vocab_file": _VOCAB_FILE.value,
        }
    if _LEARNING_RATE.value is not None:
        weights["learning_rate"] = _LEARNING_RATE.value
    folder = os.path.join(folder, f"{task}_{setting}")
    return FinetuningConfig.create(
        **weights,
        data_dir=_DATA_DIR.value,
        task_names=(task,),
        bucket_by_length=setting == BUCKETS,
        max_seq_length=_LENGTH.value,
        train_batch_size=_BATCH_SIZE.value,
        num_train_epochs=_EPOCHS.value,
        precision=_PRECISION.value,
        model_dir=os.path.join(folder, "model"),
        results_dir=os.path.join(folder, "results"),
        preprocessed_data_dir=os.path.join(folder, "features"),
        **more,
    )


def measure(task: str, folder: str) -> dict[str, Any]:
    """Measures both settings by turns."""
    with contextlib.ExitStack() as stack:
        children, starts = {}, {}
        for setting in (BUCKETS, FIXED):
            print(f"{task}: compiling with {setting} …", file=sys.stderr)
            config = create_config(task, setting, folder)
            children[setting] = Child(
                f"{task}, {setting}",
                our_command("length_buckets_child", config.to_json(), str(_STEPS.value)),
            )
            stack.callback(children[setting].stop)
            starts[setting] = Start(**children[setting].read())
        rounds = []
        for i in range(_ROUNDS.value):
            rounds.append({setting: child.ask("run") for setting, child in children.items()})
            print(f"{task}: round {i + 1} of {_ROUNDS.value}", file=sys.stderr)
    examples = _STEPS.value * _BATCH_SIZE.value
    found: dict[str, Any] = {}
    for setting, start in starts.items():
        rates = [examples / seconds[setting] for seconds in rounds]
        run_examples = start.num_train_steps * _BATCH_SIZE.value
        seconds = run_examples / statistics.median(rates)
        found[setting] = {
            **dataclasses.asdict(start),
            "examples_per_second": rates,
            "compilation": start.compilation,
            "run_seconds": seconds + start.compilation,
            "run_examples_per_second": run_examples / (seconds + start.compilation),
        }
    found["ratios"] = [seconds[FIXED] / seconds[BUCKETS] for seconds in rounds]
    found["run_ratio"] = found[FIXED]["run_seconds"] / found[BUCKETS]["run_seconds"]
    return found


def print_rates(found: dict[str, dict[str, Any]]) -> None:
    """Prints rates, compilation and the whole run."""
    print(
        f"\n{_describe()}; {_ROUNDS.value} rounds of {_STEPS.value} steps\n\n"
        f"| task | padding to | padding | examples/s (range) | buckets / fixed (range) | "
        f"compilation, s | {_EPOCHS.value:g} epochs, min | buckets / fixed, whole run |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    for task, values in found.items():
        for setting in (BUCKETS, FIXED):
            one = values[setting]
            rates, ratios = one["examples_per_second"], values["ratios"]
            cells = [
                task,
                setting,
                f"{one['padding']:.1%}",
                f"{statistics.median(rates):.1f} ({min(rates):.1f} – {max(rates):.1f})",
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f})",
                f"{one['compilation']:.1f}",
                f"{one['run_seconds'] / 60:.1f}",
                f"{values['run_ratio']:.2f}",
            ]
            if setting == FIXED:
                cells[0] = cells[4] = cells[-1] = ""
            print("| " + " | ".join(cells) + " |")


def compare_scores(task: str, folder: str) -> dict[str, Any]:
    """Fine-tunes with both settings and returns the dev scores of every seed."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()

    found: dict[str, Any] = {}
    for setting in (BUCKETS, FIXED):
        print(f"\n{task}, {setting}", file=sys.stderr)
        config = create_config(task, setting, folder, num_trials=_SEEDS.value)
        trials = finetune_run.run(
            config, print_fn=lambda message: print(message, file=sys.stderr)
        )
        found[setting] = _main_scores(trials)
    return found


def _main_scores(trials: Sequence[TrialResult]) -> dict[str, Any]:
    """Returns values, mean and std of the main metric, by task and split."""
    scores = {}
    for key, split in summarize(trials).splits.items():
        statistic = split.metrics[split.main]
        values = [trial.metrics[key][split.main] for trial in trials if trial.finished]
        scores[key] = {
            "metric": split.main,
            "values": values,
            "mean": statistic.mean,
            "std": statistic.std,
            "status": [trial.status for trial in trials],
        }
    return scores


def print_scores(found: dict[str, dict[str, Any]]) -> None:
    """Prints mean and std of the main metrics, and their difference."""
    print(f"\n{_describe()}; whole runs of {_EPOCHS.value:g} epochs, {_SEEDS.value} seeds\n")
    rows = []
    for settings in found.values():
        for key, first in settings[BUCKETS].items():
            second = settings[FIXED].get(key)
            if second is None:
                continue
            name = first["metric"]
            means = [
                f"{format_metric(name, s['mean'])} ± {format_metric(name, s['std'])}"
                for s in (first, second)
            ]
            difference = f"{first['mean'] - second['mean']:+.2f}"
            rows.append([key, name, *means, difference])
    header = ["task", "metric", "buckets, mean ± std", "fixed, mean ± std", "difference"]
    print(markdown_table(header, rows, text_columns=2))


def _describe() -> str:
    model = _MODEL_NAME.value or f"ELECTRA-{_MODEL_SIZE.value}, random weights"
    return (
        f"{model}, {_PRECISION.value}, batches of {_BATCH_SIZE.value}, at most "
        f"{_LENGTH.value} tokens"
    )


if __name__ == "__main__":
    program.run(main)
