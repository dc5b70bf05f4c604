"""Writes the results of all trials of a run, and their learning curves."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from finetune.config.finetuning import FinetuningConfig
from finetune.results.plots.learning_curves import plot_learning_curves
from finetune.results.provenance import Provenance
from finetune.results.result_files import write_results
from finetune.results.summary import TrialResult


def write_run_files(
    config: FinetuningConfig,
    results: Sequence[TrialResult],
    log_records: Sequence[Mapping[str, Any]],
    provenance: Provenance | None = None,
) -> list[str]:
    """Writes results and, where anything was logged, learning curves; returns the paths.

    The curves are of the main metric of each task.

    Args:
        config: hyperparameters.
        results: results of the trials so far.
        log_records: records of their training logs; see `plot_learning_curves`.
        provenance: provenance of the scores.
    """
    paths = list(
        write_results(
            results,
            model_name=config.model_name,
            tasks_label=config.tasks_label,
            results_dir=config.results_dir,
            results_txt=config.results_txt,
            results_pkl=config.results_pkl,
            provenance=provenance,
            model_dir=config.model_dir,
        )
    )
    if log_records:
        name = f"{config.tasks_label}_learning_curves.png"
        paths.append(os.path.join(config.results_dir, name))
        title = f"{config.model_name}: {config.tasks_label}"
        metrics = _main_metrics(results)
        # With several tasks, the training loss is a mean over them, unlike each dev loss.
        loss_name = (
            {} if len(config.task_names) > 1 else {"dev_loss": f"{config.task_names[0]}_loss"}
        )
        plot_learning_curves(
            paths[-1], log_records, title, metrics=metrics or None, **loss_name
        )
    return paths


def _main_metrics(results: Sequence[TrialResult]) -> list[str]:
    """Returns the main metric of each task, as the training log names it."""
    names = (
        f"{split.rpartition('/')[0]}_{name}"
        for result in results
        for split, name in result.main.items()
    )
    return list(dict.fromkeys(names))
