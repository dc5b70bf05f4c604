"""Prediction files: of test splits, for submission, and of `--predict_file`."""

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from electra_tf.util.output_checks import (
    check_distinct,
    check_not_input,
    check_output_file,
    check_output_folder,
)
from finetune.config.defaults import DEBUG_SUFFIX
from finetune.config.finetuning import FinetuningConfig
from finetune.data.suspicious import warn_of_unknown_rows
from finetune.results.provenance import Provenance
from finetune.results.result_files import has_provenance, json_path
from finetune.task_data import TaskData
from finetune.tasks.base import PREDICT, TRAIN, Outputs, SplitData, Task, json_lines

# Takes the place of a trial's number in file names.
ENSEMBLE = "ensemble"
# Separators of the cells and rows of a tsv file.
_SEPARATOR = re.compile(r"\r\n|[\t\r\n]")


class OutputsPredictor(Protocol):
    """Predicts outputs: a `Trainer`, or an ensemble."""

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes files."""

    def predict(
        self, task: Task, data: SplitData, batch_size: int | None = None
    ) -> list[Outputs]:
        """Returns the outputs of the task's head for every row, in order."""


def check_outputs(config: FinetuningConfig) -> None:
    """Raises UserError if the results or predictions of a run cannot be written."""
    if config.do_eval or (config.do_predict and not config.predict_output):
        check_output_folder(config.results_dir, f"--results_dir={config.results_dir}")
    if config.write_test_outputs:
        folder = folder_of_test_predictions(config)
        check_output_folder(folder, f"--write_test_outputs: {folder}")
    check_distinct(_output_files(config))
    for flag, path in _output_files(config).items():
        check_output_file(path, flag)


def check_not_task_files(config: FinetuningConfig, tasks: Sequence[Task]) -> None:
    """Raises UserError if results or predictions would overwrite a file of the tasks."""
    for flag, output in _output_files(config).items():
        for task in tasks:
            for split in (TRAIN, *task.dev_splits, *task.test_splits):
                for path in task.split_files(split):
                    check_not_input(output, flag, {f"task {task.name}": path})


def _output_files(config: FinetuningConfig) -> dict[str, str]:
    """Returns the output files that flags name, by flag."""
    names = ["predict_output"] if config.do_predict else []
    names += ["results_txt", "results_pkl"] if config.do_eval else []
    return {f"--{name}": getattr(config, name) for name in names if getattr(config, name)}


def write_test_outputs(
    config: FinetuningConfig,
    predictor: OutputsPredictor,
    tasks: Sequence[Task],
    data: TaskData,
    trial: int | str,
) -> list[str]:
    """Predicts the test splits of all tasks; returns the paths written by the chief.

    Args:
        config: hyperparameters.
        predictor: has the weights of the trial, or of the ensemble.
        tasks: tasks of the run.
        data: their data.
        trial: index of the trial, from 1, or another name for the files.

    Raises:
        UserError: a test file is missing or malformed.
    """
    folder = folder_of_test_predictions(config)
    paths = []
    for task in tasks:
        for split in task.test_splits:
            part = _unlabeled(task, split, data)
            outputs = predictor.predict(task, part, config.predict_batch_size)
            if predictor.is_chief:
                paths += task.write_test_outputs(folder, part, outputs, trial)
    return paths


def folder_of_test_predictions(config: FinetuningConfig) -> str:
    """Returns the folder of the predictions of test splits.

    It is next to the results, as in the authors' code, or inside a `results_dir` other than the
    default, so that each run keeps its own predictions.
    """
    suffix = DEBUG_SUFFIX if config.debug else ""
    usual = os.path.join(config.pretrained_model_dir, f"results{suffix}")
    is_usual = os.path.abspath(config.results_dir) == os.path.abspath(usual)
    folder = config.pretrained_model_dir if is_usual else config.results_dir
    return os.path.join(folder, f"test_predictions{suffix}")


def predict_file(
    config: FinetuningConfig, predictor: OutputsPredictor, task: Task, data: TaskData
) -> str:
    """Predicts `config.predict_file` and returns the path of the predictions.

    All workers predict; the chief writes.

    Raises:
        UserError: the file is missing or malformed.
    """
    path = predictions_path(config, task)
    part = _unlabeled(task, PREDICT, data)
    outputs = predictor.predict(task, part, config.predict_batch_size)
    if not predictor.is_chief:
        return path
    predictions = task.predictions(part, outputs)
    text = json_lines(predictions) if path.endswith(".jsonl") else _tsv(path, predictions)
    write_atomically(path, text)
    return path


def warn_of_older_predictions(
    config: FinetuningConfig, tasks: Sequence[Task], provenance: Provenance
) -> None:
    """Warns of predictions by another model or ensemble than that of the new results.

    Args:
        config: hyperparameters.
        tasks: tasks of the run.
        provenance: provenance of the results that are about to be written.
    """
    is_same = False
    with contextlib.suppress(UserError):  # the earlier results are damaged
        is_same = has_provenance(json_path(config.results_dir, config.tasks_label), provenance)
    older: dict[str, list[str]] = {}
    if not (is_same or config.do_predict) and len(tasks) == 1:
        path = predictions_path(config, tasks[0])
        older["do_predict"] = [path] if os.path.exists(path) else []
    folder = pathlib.Path(folder_of_test_predictions(config))
    replaced = _written_trials(config)
    older["write_test_outputs"] = [
        str(path)
        for task in tasks
        for split in task.test_splits
        for path in sorted(folder.glob(f"{task.name}_{split}_*_predictions.jsonl"))
        if (trial := path.name.split("_")[-2]) not in replaced
        # The provenance does not record which trials an ensemble averages.
        if trial == ENSEMBLE or not is_same
    ]
    for flag, paths in older.items():
        if paths:
            again = "" if getattr(config, flag) else f", or predict again with --{flag}"
            warn_once(
                f"{paths[0]} is from an earlier run, whose model may not be that of the "
                f"current results: remove it{again}"
            )


def _written_trials(config: FinetuningConfig) -> set[str]:
    """Returns the trials whose test predictions a run writes, as named in file names."""
    if not config.write_test_outputs:
        return set()
    count = config.n_writes_test if config.num_trials < 0 else config.num_trials
    numbers = range(1, min(count, config.n_writes_test) + 1)
    return {*map(str, numbers), *([ENSEMBLE] if config.ensemble_size > 1 else [])}


def _unlabeled(task: Task, split: str, data: TaskData) -> SplitData:
    part = data.get(task, split, labeled=False)
    warn_of_unknown_rows(f"{task.name} {split}", part.rows, task.tokenizer.vocabulary)
    return part


def predictions_path(config: FinetuningConfig, task: Task) -> str:
    """Returns the output path of the predictions of `--predict_file`."""
    return config.predict_output or os.path.join(
        config.results_dir, f"{task.name}_predictions.jsonl"
    )


def _tsv(path: str, predictions: Sequence[dict]) -> str:
    """Formats predictions as a table without quoting, as task files in tsv are read.

    Values other than texts and numbers are JSON. Tabs and line breaks within texts, which such
    a table cannot represent, become spaces, with a warning.
    """
    names = list(dict.fromkeys(name for p in predictions for name in p))
    rows = [names, *([_cell(p.get(name, "")) for name in names] for p in predictions)]
    replaced = sum(_SEPARATOR.search(cell) is not None for row in rows for cell in row)
    if replaced:
        warn_once(
            f"{path}: tabs and line breaks in {replaced:,} cells are written as spaces: a "
            "tsv file cannot contain them; a .jsonl file can"
        )
    return "".join("\t".join(_SEPARATOR.sub(" ", cell) for cell in row) + "\n" for row in rows)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
