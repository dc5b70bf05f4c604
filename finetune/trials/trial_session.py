"""One trial of a fine-tuning run, from initialization to its scores."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import warn_of_repeated_examples
from electra_tf.config.saved_config import load_saved_config
from electra_tf.config.trained_positions import TRAINED_POSITIONS
from electra_tf.interop.formats import saved_hyperparameters
from electra_tf.interop.model_checkpoint import TASKS
from electra_tf.training.checkpoints.authors_files import has_only_authors_checkpoint
from electra_tf.training.monitoring.run_info import LOG_FILE, read_log, training_seconds
from electra_tf.util.console import warn_once
from electra_tf.util.files import remove_files
from finetune.config.finetuning import FinetuningConfig
from finetune.config.saved_settings import NUM_TRAIN_STEPS
from finetune.data.batches import count_steps
from finetune.data.features import row_length
from finetune.initialization import pretrained_positions
from finetune.prediction_files import write_test_outputs
from finetune.results.calibration import Calibration, calibrate, fit_temperature
from finetune.results.confusion_counts import CONFUSION_SUFFIX, write_confusion
from finetune.results.plots.confusion import plot_confusion
from finetune.results.plots.reliability_diagram import plot_reliability
from finetune.results.provenance import PRETRAINED, Provenance, scored_settings_digest
from finetune.results.result_files import file_stem
from finetune.results.summary import DEGENERATE, DIVERGED, OK, TrialResult
from finetune.results.worst_errors import ERRORS_SUFFIX, write_errors
from finetune.task_data import TaskData
from finetune.tasks.base import (
    MAX_CONFUSION_LABELS,
    Outputs,
    Scores,
    SplitData,
    Task,
)
from finetune.trainer import DivergedError, Trainer
from finetune.trials.evaluation_checks import (
    check_descriptions,
    check_labels,
    check_ranges,
    warn_of_other_inputs,
    warn_of_trained_examples,
)
from finetune.trials.model_folders import (
    prepare_folder,
    run_hyperparameters,
    selection_splits,
)
from finetune.trials.trial_runs import TrialRun

PrintFn = Callable[[str], None]


class TrialSession:
    """One trial, from initialization to its scores.

    Args:
        config: hyperparameters.
        trainer: model and compiled steps, which the trials share.
        tasks: tasks of the run.
        data: their data.
        trial: the trial, or a fold of one.
        task_files: SHA-256 of the files that the run trains and scores on.
        print_fn: prints a message.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        trainer: Trainer,
        tasks: Sequence[Task],
        data: TaskData,
        trial: TrialRun,
        task_files: str,
        print_fn: PrintFn,
    ) -> None:
        self._config = config
        self._trainer = trainer
        self._tasks = tasks
        self._data = data
        self._trial = trial
        self._task_files = task_files
        self._print = print_fn

    def run(self, train_data: Mapping[str, SplitData]) -> TrialResult:
        """Trains, evaluates and predicts, as `do_train`, `do_eval`, `write_test_outputs` say.

        A trial that diverges has no scores. Without `do_train`, call `check_models` before.

        Args:
            train_data: the train split of each task, by name.

        Raises:
            UserError: there is no fine-tuned model, or it has other labels.
        """
        config, trial = self._config, self._trial
        result = TrialResult(
            trial=trial.number, seed=trial.seed, fold=trial.fold, examples=trial.counts()
        )
        if config.do_train:
            try:
                result = self._train(train_data, result)
            except DivergedError as error:
                self._print(f"{trial.title} diverged: {error}")
                return dataclasses.replace(result, status=DIVERGED, reason=str(error))
        elif path := self._foreign_model():
            trained = self._trainer.load_encoder_and_heads(path)
            check_labels(path, {name: x.labels for name, x in trained.items()}, self._tasks)
            known = {TASKS: {name: x.settings for name, x in trained.items()}}
            check_ranges(path, known, self._tasks)
        else:
            self._trainer.restore(trial.model_dir)
            result = dataclasses.replace(result, **self._recorded_training())
        if not config.do_train:
            model, recorded = self._evaluated_model()
            result = dataclasses.replace(result, chosen_on=self._recorded_selection(recorded))
            check_descriptions(model, recorded, self._tasks)
            check_ranges(model, recorded, self._tasks)
            warn_of_other_inputs(model, recorded, config)
            if config.do_eval:
                warn_of_trained_examples(model, recorded, self._tasks, config.num_folds)
        if config.do_eval:
            result = self._evaluate(result)
        if config.write_test_outputs and trial.number <= config.n_writes_test:
            for path in write_test_outputs(
                config, self._trainer, self._tasks, self._data, trial.number
            ):
                self._print(f"Test outputs: {path}")
        return result

    def _recorded_training(self) -> dict[str, float]:
        """Returns the steps and seconds in the log of an evaluated model, if it has one.

        They are kept, because the results of the evaluation replace those of the training.
        """
        path = os.path.join(self._trial.model_dir, LOG_FILE)
        if not (self._config.do_eval and os.path.exists(path)):
            return {}
        log = read_log(path)
        steps = max((record["step"] for record in log), default=0)
        return {"steps": steps, "seconds": training_seconds(log)}

    def _evaluated_model(self) -> tuple[str, Mapping[str, Any]]:
        """Returns the path of the model, in any format, and its recorded hyperparameters."""
        path = self._foreign_model() or self._trial.model_dir
        return path, saved_hyperparameters(path, needs_vocabulary=False)

    def _foreign_model(self) -> str | None:
        """Returns the model to evaluate if this trial did not train it, else None.

        That is `--init_checkpoint`, or a checkpoint of the authors' code in the trial's folder.
        """
        own = self._trial.model_dir
        authors = own if has_only_authors_checkpoint(own) else None
        return self._config.evaluated_checkpoint or authors

    def _train(self, train_data: Mapping[str, SplitData], result: TrialResult) -> TrialResult:
        config, trial = self._config, self._trial
        self._trainer.start(trial.seed)
        pretrained = self._trainer.pretrained_digest
        hyperparameters = run_hyperparameters(
            config, trial, self._tasks, self._data, pretrained
        )
        hyperparameters = prepare_folder(
            trial,
            hyperparameters,
            older_fingerprints=self._data.fingerprints,
            overwrite=config.overwrite,
            workers=self._trainer.workers,
            print_fn=self._print,
        )
        num_rows = sum(len(part.rows) for part in train_data.values())
        num_examples = trial.num_examples or num_rows
        batch_size, epochs = config.train_batch_size, config.num_train_epochs
        num_train_steps = max(1, count_steps(num_examples, batch_size, epochs))
        if self._trainer.is_chief:
            warn_of_repeated_examples(batch_size, num_examples)
            _warn_of_single_step(config, num_train_steps)
        evaluates = config.do_eval or config.keep_best
        eval_steps = config.eval_steps or count_steps(num_examples, batch_size, 1)
        if self._trainer.is_chief:
            _warn_of_few_evaluations(config, eval_steps, num_train_steps)
        trained = self._trainer.train(
            train_data,
            num_train_steps=num_train_steps,
            seed=trial.seed,
            model_dir=trial.model_dir,
            evaluate=self._selection_metric if evaluates else None,
            eval_steps=eval_steps,
            hyperparameters={
                **hyperparameters,
                NUM_TRAIN_STEPS: num_train_steps,
                **self._trained_positions(train_data),
            },
        )
        return dataclasses.replace(
            result,
            steps=trained.steps,
            best_step=trained.best_step,
            chosen_on=[] if trained.best_step is None else self._chosen_on(),
            seconds=trained.seconds,
        )

    def _trained_positions(self, train_data: Mapping[str, SplitData]) -> dict[str, int]:
        """Returns the entry of `config.json` for the number of trained positions."""
        pretrained = pretrained_positions(self._config)
        if pretrained is None:
            return {}
        lengths = (row_length(row) for part in train_data.values() for row in part.rows)
        return {TRAINED_POSITIONS: max(pretrained, max(lengths))}

    def provenance(self) -> Provenance:
        """Returns the hashes of everything that the scores of the trial depend on."""
        config = self._config
        recorded = {PRETRAINED: self._trainer.pretrained_digest}
        if not config.do_train:
            _, recorded = self._evaluated_model()
        elif description := load_saved_config(self._trial.model_dir):
            recorded = description.hyperparameters
        return Provenance(
            recorded.get(PRETRAINED),
            self._task_files,
            scored_settings_digest(dataclasses.asdict(config), recorded),
            self._tasks[0].tokenizer.vocabulary.sha256,
        )

    def _splits(self, task: Task) -> list[SplitData]:
        if self._trial.held_out is not None:
            return [self._trial.held_out]
        return [self._data.get(task, split) for split in task.dev_splits]

    def _selection_split(self, task: Task) -> SplitData:
        """Returns the data that selects the weights or, without `keep_best`, is only scored."""
        return self._trial.selection or self._splits(task)[0]

    def _chosen_on(self) -> list[str]:
        return [f"{task.name}/{self._selection_split(task).split}" for task in self._tasks]

    def _recorded_selection(self, recorded: Mapping[str, Any]) -> list[str]:
        """Returns the splits that selected the weights of an evaluated model, if recorded."""
        if self._trial.held_out is not None:  # a fold, with the examples of its training
            return self._chosen_on() if self._config.keep_best else []
        return selection_splits(recorded)

    def _selection_metric(self) -> tuple[float, dict[str, float]]:
        """Returns the mean of the main metrics of all tasks, and all metrics."""
        values: dict[str, float] = {}
        mains = []
        for task in self._tasks:
            scores = self._trainer.evaluate(task, self._selection_split(task))
            mains.append(scores.main_value if math.isfinite(scores.main_value) else -math.inf)
            values |= {f"{task.name}_{name}": v for name, v in scores.metrics.items()}
        return sum(mains) / len(mains), values

    def _evaluate(self, result: TrialResult) -> TrialResult:
        metrics, main, problems = {}, {}, []
        for task in self._tasks:
            temperature = math.nan
            for i, split in enumerate(self._splits(task)):
                outputs = self._trainer.predict(task, split)
                scores = task.score(split, outputs)
                key = f"{task.name}/{split.split}"
                if i == 0:
                    temperature = self._temperature(task, split, outputs)
                    if problem := task.degenerate(split, outputs):
                        problems.append(f"{task.name}: {problem}")
                calibration = self._calibrate(task, split, outputs, temperature)
                scores.metrics.update(calibration.metrics if calibration else {})
                metrics[key], main[key] = dict(scores.metrics), scores.main
                self._print(f"{key}: {_format_scores(scores)}")
                if self._trainer.is_chief:
                    self._write_split(task, split, outputs, scores, calibration)
        return dataclasses.replace(
            result,
            status=DEGENERATE if problems else OK,
            reason="; ".join(problems) or None,
            metrics=metrics,
            main=main,
        )

    def _write_split(
        self,
        task: Task,
        split: SplitData,
        outputs: Sequence[Outputs],
        scores: Scores,
        calibration: Calibration | None,
    ) -> None:
        """Writes plots, worst errors and answers of an evaluated split.

        Removes files that only other kinds of tasks have, in case the task has changed.
        """
        self._plot_confusion(task, split, scores)
        write_errors(f"{self._stem(task, split)}{ERRORS_SUFFIX}", task.errors(split, outputs))
        self._plot_reliability(task, split, calibration)
        task.write_dev_answers(self._config.results_dir, split, outputs, self._trial.file_label)

    def _temperature(self, task: Task, split: SplitData, outputs: Sequence[Outputs]) -> float:
        """Returns the temperature fitted on dev, or on the part of a fold that selects weights.

        NaN for tasks without class probabilities.
        """
        selection = self._selection_split(task)
        if task.class_logits(split, outputs) is None:
            return math.nan
        if selection is not split:
            outputs = self._trainer.predict(task, selection)
        return fit_temperature(*task.class_logits(selection, outputs))

    def _calibrate(
        self, task: Task, split: SplitData, outputs: Sequence[Outputs], temperature: float
    ) -> Calibration | None:
        predicted = task.class_logits(split, outputs)
        if predicted is None:
            return None
        return calibrate(*predicted, temperature, self._selection_split(task).split)

    def _plot_reliability(
        self, task: Task, split: SplitData, calibration: Calibration | None
    ) -> None:
        stem = self._stem(task, split)
        path, figure = f"{stem}_calibration.json", f"{stem}_reliability.png"
        if calibration is None:
            remove_files(path, figure)
            return
        calibration.write(path)
        title = f"{task.name} {split.split}, {self._trial.title.lower()}"
        plot_reliability(figure, calibration, title)

    def _plot_confusion(self, task: Task, split: SplitData, scores: Scores) -> None:
        stem = self._stem(task, split)
        path, figure = f"{stem}{CONFUSION_SUFFIX}", f"{stem}_confusion.png"
        if scores.confusion is None:
            remove_files(path, figure)
            if scores.labels:
                self._print(
                    f"{task.name}/{split.split}: no confusion matrix, as there are more than "
                    f"{MAX_CONFUSION_LABELS:,} labels"
                )
            return
        write_confusion(path, scores.labels, scores.confusion)
        title = f"{task.name} {split.split}, {self._trial.title.lower()}"
        plot_confusion(figure, scores.confusion, scores.labels, title)

    def _stem(self, task: Task, split: SplitData) -> str:
        key = f"{task.name}/{split.split}"
        name = file_stem(self._config.tasks_label, key, self._trial.file_label)
        return os.path.join(self._config.results_dir, name)


def _warn_of_single_step(config: FinetuningConfig, num_train_steps: int) -> None:
    """Warns if there is a single training step, at which the learning rate is already 0."""
    if num_train_steps == 1 and config.lr_decay_power > 0:
        warn_once(
            f"--num_train_epochs={config.num_train_epochs:g} and --train_batch_size="
            f"{config.train_batch_size} give a single step, at which the learning rate has "
            "already decayed to 0: nothing is learned. Increase the former, or reduce the "
            "latter"
        )


def _warn_of_few_evaluations(
    config: FinetuningConfig, eval_steps: int, num_train_steps: int
) -> None:
    """Warns of --keep_best or early stopping with too few evaluations to have an effect."""
    count = math.ceil(num_train_steps / eval_steps)
    patience = config.early_stopping_patience
    interval = f"every {eval_steps} steps of {num_train_steps} (--eval_steps)"
    # The first evaluation can be the best, and the last one is at the end anyway.
    if patience is not None and count <= patience + 1:
        warn_once(
            f"--early_stopping_patience={patience} has no effect: stopping early takes more "
            f"than {patience + 1} evaluations, but the run has {count}, one {interval}"
        )
    elif config.keep_best and count == 1:
        warn_once(
            f"--keep_best has no effect: with an evaluation {interval}, only the last weights "
            "are evaluated"
        )


def _format_scores(scores: Scores) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in scores.metrics.items())
