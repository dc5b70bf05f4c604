"""Selects the trials to predict with: the best one on dev, or an ensemble of the best ones.

On the test sets of GLUE, the paper ensembles the best 10 of 30 models with different seeds
(Clark et al. 2020, appendix B). Here, an ensemble averages probabilities or numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.results.ensemble_scores import EnsembleScores, ensemble_file
from finetune.results.result_text import format_metric
from finetune.results.summary import TrialResult
from finetune.task_data import TaskData
from finetune.tasks.base import Outputs, SplitData, Task
from finetune.trainer import Trainer
from finetune.trials.trial_runs import TrialRun

# Omitted from the scores: the mean of the models' losses is not the loss of the ensemble.
_LOSS = "loss"


class ScoredTrial(NamedTuple):
    """A trial and its result."""

    run: TrialRun
    result: TrialResult

    @property
    def value(self) -> float:
        """Mean of the tasks' main metrics on their first splits, as for `--keep_best`.

        -inf if a metric is undefined; 0 if the trial was not evaluated.
        """
        values: dict[str, float] = {}
        for key, metrics in self.result.metrics.items():
            values.setdefault(key.rpartition("/")[0], metrics[self.result.main[key]])
        value = sum(values.values()) / len(values) if values else 0.0
        return value if math.isfinite(value) else -math.inf


class Ensemble:
    """Predicts with the averaged outputs of several models, as `Trainer` does with one model.

    Args:
        trainer: loads the models one after another.
        model_dirs: folders of the models.
    """

    def __init__(self, trainer: Trainer, model_dirs: Sequence[str]) -> None:
        self._trainer = trainer
        self._model_dirs = model_dirs
        self._announces = True

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes files."""
        return self._trainer.is_chief

    def predict(
        self, task: Task, data: SplitData, batch_size: int | None = None
    ) -> list[Outputs]:
        """Returns the mean outputs of the task's head for every row, in order.

        All rows of an example have the same outputs: the mean of the models' answers.
        """
        per_model = []
        for model_dir in self._model_dirs:
            self._trainer.restore(model_dir, announces=self._announces)
            outputs = self._trainer.predict(task, data, batch_size)
            per_model.append(task.pooled(data, outputs))
        self._announces = False
        return [task.average(outputs) for outputs in zip(*per_model, strict=True)]


def check_averages(config: FinetuningConfig, tasks: Sequence[Task]) -> None:
    """Raises UserError if the outputs of a task cannot be averaged."""
    for task in tasks:
        if config.ensemble_size > 1 and task.average is None:
            raise UserError(
                f"--ensemble_size={config.ensemble_size}: answers of {task.kind.name} tasks, "
                f"such as {task.name}, cannot be averaged"
            )


def rank_trials(runs: Sequence[TrialRun], results: Sequence[TrialResult]) -> list[ScoredTrial]:
    """Returns the finished trials, best first; ties keep their order.

    Raises:
        UserError: no trial finished.
    """
    pairs = (ScoredTrial(*pair) for pair in zip(runs, results, strict=True))
    finished = sorted((each for each in pairs if each.result.finished), key=lambda x: -x.value)
    if not finished:
        raise UserError("There is no model to predict with: no trial finished")
    return finished


def make_ensemble(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    data: TaskData,
    trials: Sequence[ScoredTrial],
    print_fn: Callable[[str], None],
) -> Ensemble:
    """Returns the ensemble of the best trials, and reports its scores on dev.

    The chief writes the scores to the `ensemble_file`.

    Args:
        config: hyperparameters.
        trainer: trainer of the run.
        tasks: tasks of the run.
        data: data of the tasks.
        trials: finished trials, best first.
        print_fn: prints a line.
    """
    chosen = list(trials[: config.ensemble_size])
    if len(chosen) < config.ensemble_size:
        warn_once(
            f"--ensemble_size={config.ensemble_size}: only {len(chosen)} trials finished; "
            "these are averaged"
        )
    ensemble = Ensemble(trainer, [each.run.model_dir for each in chosen])
    numbers = sorted(each.run.number for each in chosen)
    metrics, main = {}, {}
    print_fn(f"\nEnsemble of trials {', '.join(map(str, numbers))}")
    for task in tasks:
        for split in task.dev_splits:
            part = data.get(task, split)
            scores = task.score(part, ensemble.predict(task, part))
            key = f"{task.name}/{split}"
            metrics[key] = {
                name: float(value) if math.isfinite(value) else None
                for name, value in scores.metrics.items()
                if name != _LOSS
            }
            main[key] = scores.main
            shown = (
                f"{name} {format_metric(name, value)}" for name, value in metrics[key].items()
            )
            print_fn(f"{key}: {', '.join(shown)}")
    if ensemble.is_chief:
        path = ensemble_file(config.results_dir, config.tasks_label)
        EnsembleScores(numbers, metrics, main).write(path)
        print_fn(f"Results: {path}")
    return ensemble
