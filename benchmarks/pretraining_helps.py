r"""Fine-tunes a pre-trained model and the same model from random weights, and compares them.

    python -m benchmarks.pretraining_helps --data_dir DATA --model_name small \
        --output_dir OUTPUT --finetuning_flags="--learning_rate 3e-4"

Mind the "=": without it a value that starts with a dash would be taken for a flag. Both
starts get the same flags and seeds; `--random_flags` come after them for random weights,
which may need another learning rate. Each run of `run_finetuning.py` writes into
OUTPUT/<task>/<start>/, its log included. Runs whose results are there are skipped, so the
same command goes on where it was stopped. The table has medians and standard deviations over
the seeds, degenerate trials included, and Welch's t-test of the means. Every trial leaves a
model with its optimizer; `--keep_all_models=false` among the flags keeps only the last.
"""

import dataclasses
import json
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import scipy.stats
from absl import flags

from benchmarks.finetuning_runs import LOG_FILE, Run, run_all
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.defaults import RANDOM_INIT
from finetune.results.result_text import UNDEFINED, format_metric, main_metric_text
from finetune.results.summary import OK, summarize
from flags.command_line import program

_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder of models/ and finetuning_data/.")
_MODEL_NAME = flags.DEFINE_string("model_name", None, "Pre-trained model, in DATA_DIR/models.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder of all runs; resumed if there.")
_TASKS = flags.DEFINE_list("tasks", "sst,cola,mrpc,rte,chunk", "Tasks, one by one.")
_NUM_TRIALS = flags.DEFINE_integer("num_trials", 3, "Seeds of each start.", lower_bound=1)
_FINETUNING_FLAGS = flags.DEFINE_string(
    "finetuning_flags", "", "Further flags of run_finetuning.py, for both starts."
)
_RANDOM_FLAGS = flags.DEFINE_string(
    "random_flags", "", "Flags that random weights get after those."
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes",
    1,
    "Fine-tunings at once; with more than one, each uses one thread.",
    lower_bound=1,
)
_JSON = flags.DEFINE_string(
    "json", None, "File that gets all numbers; OUTPUT_DIR/pretraining_helps.json if unset."
)

PRETRAINED, RANDOM = "pretrained", "random"


def main() -> int:
    """Runs what is missing and prints the table."""
    for flag in (_DATA_DIR, _MODEL_NAME, _OUTPUT_DIR):
        if not flag.value:
            raise UserError(f"--{flag.name} is required")
    runs = create_runs()
    # All are looked at first: a wrong folder is told of before hours of training.
    missing = [run for run in runs if run.results(_NUM_TRIALS.value) is None]
    print(f"{len(runs)} runs, {len(runs) - len(missing)} of them have results", flush=True)
    failed = run_all(missing, _NUM_TRIALS.value, _NUM_PROCESSES.value)
    found = compare(runs)
    print_table(found)
    path = _JSON.value or os.path.join(_OUTPUT_DIR.value, "pretraining_helps.json")
    content = {
        "model_name": _MODEL_NAME.value,
        "num_trials": _NUM_TRIALS.value,
        "flags": {f"{run.task}/{run.start}": list(run.flags) for run in runs},
        "comparisons": found,
    }
    write_atomically(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    print(f"\nJSON: {path}")
    for run in failed:
        print(f"Failed: {run.label}; see {run.folder / LOG_FILE}", file=sys.stderr)
    return 1 if failed else 0


def create_runs() -> list[Run]:
    """Returns the runs of all tasks, each from both starts."""
    output_dir = pathlib.Path(_OUTPUT_DIR.value).absolute()
    runs = []
    for task in _TASKS.value:
        for start in (PRETRAINED, RANDOM):
            folder = output_dir / task / start
            run_flags = [
                f"--data_dir={os.path.abspath(_DATA_DIR.value)}",
                f"--model_name={_MODEL_NAME.value}",
                f"--task_names={task}",
                f"--model_dir={folder / 'model'}",
                f"--results_dir={folder / 'results'}",
                f"--preprocessed_data_dir={folder / 'features'}",
                *shlex.split(_FINETUNING_FLAGS.value),
            ]
            if start == RANDOM:
                run_flags += [
                    f"--init_checkpoint={RANDOM_INIT}",
                    *shlex.split(_RANDOM_FLAGS.value),
                ]
            runs.append(Run(task, start, folder, tuple(run_flags)))
    return runs


def compare(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns, for each task and split that both starts have, the main metric of both."""
    found = []
    by_name = {(run.task, run.start): run.results(_NUM_TRIALS.value) for run in runs}
    for task in dict.fromkeys(run.task for run in runs):
        starts = {start: by_name[task, start] for start in (PRETRAINED, RANDOM)}
        if None in starts.values():
            continue
        summaries = {start: summarize(trials) for start, trials in starts.items()}
        for key, split in summaries[PRETRAINED].splits.items():
            if key not in summaries[RANDOM].splits:
                continue
            one: dict[str, Any] = {"task": key, "metric": split.main}
            for start, trials in starts.items():
                of_start = summaries[start].splits[key]
                values = [t.metrics[key][split.main] for t in trials if t.finished]
                one[start] = {
                    "values": [value for value in values if math.isfinite(value)],
                    "shown": main_metric_text(of_start, by_fold=False),
                    **dataclasses.asdict(of_start.metrics[split.main]),
                    "not_ok": [f"seed {t.seed}: {t.status}" for t in trials if t.status != OK],
                }
            one["p"] = welch_p(one[PRETRAINED]["values"], one[RANDOM]["values"])
            found.append(one)
    return found


def welch_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns the two-sided p of Welch's t-test; None where it is not defined."""
    if min(len(first), len(second)) < 2 or len({*first}) == len({*second}) == 1:
        return None
    return float(scipy.stats.ttest_ind(first, second, equal_var=False).pvalue)


def print_table(found: Sequence[dict[str, Any]]) -> None:
    """Prints one line for each task and split, and what went wrong."""
    rows = []
    for one in found:
        first, second = (one[start]["median"] for start in (PRETRAINED, RANDOM))
        difference = UNDEFINED
        if first is not None and second is not None:
            difference = ("+" if first >= second else "") + format_metric(
                one["metric"], first - second
            )
        p = UNDEFINED if one["p"] is None else f"{one['p']:.2g}"
        shown = [one[start]["shown"] for start in (PRETRAINED, RANDOM)]
        rows.append([one["task"], one["metric"], *shown, difference, p])
    header = ["task", "metric", "pre-trained", "random weights", "difference", "p"]
    print(f"\n{_MODEL_NAME.value}, medians ± std of {_NUM_TRIALS.value} seeds; difference of")
    print("the medians; p of Welch's t-test, which so few seeds make no more than a hint\n")
    print(markdown_table(header, rows, text_columns=2))
    for one in found:
        for start in (PRETRAINED, RANDOM):
            if one[start]["not_ok"]:
                print(f"- {one['task']}, {start}: {', '.join(one[start]['not_ok'])}")


if __name__ == "__main__":
    program.run(main)
