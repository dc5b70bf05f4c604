"""Predictions on the disk: of test splits, for submission, and of users' own files."""

import csv
import io
import json
import os
import pickle
from collections.abc import Sequence

from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.task_data import TaskData
from finetune.tasks.base import PREDICT, Outputs, SplitData, Task
from finetune.tasks.qa.task import QATask, write_squad_outputs
from finetune.tasks.text.glue import glue_submission
from finetune.trainer import Trainer


def write_test_outputs(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    data: TaskData,
    trial: int,
) -> list[str]:
    """Predicts the test splits of all tasks; returns the paths that the chief has written.

    For GLUE's tasks the submission file and the authors' pickle (example number to logits,
    or to the predicted number); for question answering SQuAD's JSON files; for every task
    the predictions as JSON lines.

    Raises:
        UserError: a test file is missing or bad.
    """
    folder = os.path.join(config.pretrained_model_dir, "test_predictions")
    paths = []
    for task in tasks:
        for split in task.test_splits:
            part = data.get(task, split, labeled=False)
            outputs = trainer.predict(task, part, config.predict_batch_size)
            if not trainer.is_chief:
                continue
            predictions = task.predictions(part, outputs)
            stem = os.path.join(folder, f"{task.name}_{split}_{trial}_predictions")
            write_atomically(f"{stem}.jsonl", _json_lines(predictions))
            paths.append(f"{stem}.jsonl")
            submission = glue_submission(task.name, split, predictions)
            if submission is not None:
                path = os.path.join(folder, f"glue_{trial}", submission.file_name)
                write_atomically(path, submission.text)
                write_atomically(f"{stem}.pkl", pickle.dumps(_authors_content(part, outputs)))
                paths += [path, f"{stem}.pkl"]
            if isinstance(task, QATask):
                paths += write_squad_outputs(
                    os.path.join(folder, f"squad_{split}_{trial}"), task.name, predictions
                )
    return paths


def write_dev_answers(
    config: FinetuningConfig,
    task: Task,
    data: SplitData,
    outputs: Sequence[Outputs],
    run_name: str,
) -> list[str]:
    """Writes the answers to a dev set, for SQuAD's official evaluation and for reading.

    Returns:
        The paths; none for tasks that are not question answering.
    """
    if not isinstance(task, QATask):
        return []
    folder = os.path.join(config.results_dir, f"{config.tasks_label}_qa")
    predictions = task.predictions(data, outputs)
    return write_squad_outputs(folder, f"{task.name}_{data.split}_{run_name}", predictions)


def predict_file(config: FinetuningConfig, trainer: Trainer, task: Task, data: TaskData) -> str:
    """Predicts `config.predict_file` and returns the path of the predictions."""
    path = predictions_path(config, task)
    part = data.get(task, PREDICT, labeled=False)
    outputs = trainer.predict(task, part, config.predict_batch_size)
    if not trainer.is_chief:
        return path
    predictions = task.predictions(part, outputs)
    text = _json_lines(predictions) if path.endswith(".jsonl") else _tsv(predictions)
    write_atomically(path, text)
    return path


def predictions_path(config: FinetuningConfig, task: Task) -> str:
    """Returns where the predictions of `--predict_file` go."""
    return config.predict_output or os.path.join(
        config.results_dir, f"{task.name}_predictions.jsonl"
    )


def _authors_content(data: SplitData, outputs: Sequence[Outputs]) -> dict:
    return {
        example.eid: output["logits"] if "logits" in output else output["predictions"]
        for example, output in zip(data.examples, outputs, strict=True)
    }


def _json_lines(predictions: Sequence[dict]) -> str:
    return "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in predictions)


def _tsv(predictions: Sequence[dict]) -> str:
    """Returns a table; what is no text or number in a cell is JSON."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for p in predictions for name in p))
    writer = csv.DictWriter(text, names, delimiter="\t", lineterminator="\n")
    writer.writeheader()
    for prediction in predictions:
        writer.writerow(
            {
                name: value
                if isinstance(value, str | int | float)
                else json.dumps(value, ensure_ascii=False)
                for name, value in prediction.items()
            }
        )
    return text.getvalue()
