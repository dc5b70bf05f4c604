"""Grid search over hyperparameters by score on dev, driven by Optuna."""

import contextlib
import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.config.distribution import MULTI_WORKER
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    check_batch_sizes,
    create_context,
)
from electra_tf.util.console import discard, markdown_table, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.files import read_json, to_json, write_atomically
from finetune.config.defaults import SEARCH_SUFFIX
from finetune.config.finetuning import FinetuningConfig
from finetune.results.summary import TrialResult
from finetune.run import require_finished, run
from finetune.run_inputs import find_tasks, load_data
from finetune.task_data import TaskData, fingerprint
from finetune.tasks.base import TRAIN, Task
from finetune.trainer import Trainer

FLAG = "--hparam_search"
EXTRA = "search"
# File in the models folder that lists the combinations, in the order of their numbers.
_COMBINATIONS_FILE = "combinations.json"
_COMBINATIONS = "combinations"


class SearchRun(NamedTuple):
    """The runs with one combination of values.

    Attributes:
        hyperparameters: the combination.
        score: mean of the main metrics on dev, over trials or folds and tasks; None if none
            finished or a metric is undefined.
        unfinished: number of diverged trials or folds, which the score leaves out.
        results_dir: folder of the results, relative to that of the ranking.
    """

    hyperparameters: dict[str, Any]
    score: float | None
    unfinished: int
    results_dir: str


def search(
    given: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    print_fn: Callable[[str], None] = print,
) -> list[SearchRun]:
    """Fine-tunes with every combination of the values of a grid.

    Resumes the runs of earlier searches whose combinations are also in this one. The scores
    are written to RESULTS/<tasks>_search.json.

    Args:
        given: hyperparameters of all runs, as for `FinetuningConfig.create`.
        grid: values to try, by name of the hyperparameter.
        print_fn: prints a message.

    Returns:
        The finished combinations, best first.

    Raises:
        UserError: Optuna is not installed, or a combination is invalid; nothing has been
            trained. Or no trial of any combination has finished.
    """
    optuna = import_extra("optuna", EXTRA, FLAG)
    base = FinetuningConfig.create(**given)
    _check(base)
    for name in ("results_txt", "results_pkl"):
        if given.get(name):
            warn_once(f"--{name} has no effect with {FLAG}: every run has its own results")
    combinations = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    configs = []
    for number, values in enumerate(combinations, start=1):
        with _naming_combination(values):
            configs.append(_config(given, base, values, number))
    # Must run before TensorFlow is initialized, because it sets the threads of the process.
    context = create_context(configs[0], hidden_size=base.encoder.hidden_size)
    check_combinations(combinations, configs, context)
    runs: list[SearchRun] = []
    trials: list[TrialResult] = []
    path = os.path.join(base.results_dir, f"{base.tasks_label}_search.json")

    def objective(trial: Any) -> float:
        values = {name: trial.suggest_categorical(name, grid[name]) for name in grid}
        config = configs[combinations.index(values)]
        print_fn(f"\nSearch: {len(runs) + 1} of {len(configs)}, {_flags(values)}")
        results = run(config, print_fn)
        trials.extend(results)
        score, unfinished = _score(config, results), sum(not each.finished for each in results)
        results_dir = os.path.relpath(config.results_dir, base.results_dir)
        runs.append(SearchRun(values, score, unfinished, results_dir))
        write_atomically(path, _to_json(_best_first(runs), combinations, others))
        return math.nan if score is None else score

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.GridSampler(dict(grid), seed=base.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    with lock_model_dir(_models_dir(base), "--model_dir", context.workers):
        numbers, others = _folder_numbers(combinations, _models_dir(base))
        for number, values in others.items():
            print_fn(f"Not ranked, from an earlier search: {_flags(values)} (run_{number})")
        pairs = zip(combinations, numbers, strict=True)
        configs = [_config(given, base, values, number) for values, number in pairs]
        study.optimize(objective, n_trials=len(configs))
    runs = _best_first(runs)
    _report(runs, path, print_fn)
    require_finished(trials)
    return runs


def _check(config: FinetuningConfig) -> None:
    if not (config.do_train and config.do_eval):
        raise UserError(
            f"{FLAG} needs training and evaluation: remove --do_train=false and --do_eval=false"
        )
    for name in ("do_predict", "write_test_outputs"):
        if getattr(config, name):
            raise UserError(f"{FLAG} only chooses hyperparameters: remove --{name}")
    if config.ensemble_size > 1:
        raise UserError(f"{FLAG} only chooses hyperparameters: remove --ensemble_size")
    if config.num_trials < 0:
        raise UserError(f"{FLAG} needs a positive --num_trials, not {config.num_trials}")
    if config.strategy == MULTI_WORKER:
        raise UserError(f"{FLAG} runs on one host: remove --strategy={MULTI_WORKER}")


def _config(
    given: Mapping[str, Any], base: FinetuningConfig, values: Mapping[str, Any], number: int
) -> FinetuningConfig:
    """Returns the configuration of a combination, with its own folders."""
    outputs = {
        "model_dir": os.path.join(_models_dir(base), f"run_{number}"),
        "results_dir": os.path.join(
            base.results_dir, f"{base.tasks_label}{SEARCH_SUFFIX}", f"run_{number}"
        ),
        "preprocessed_data_dir": base.preprocessed_data_dir,
        "results_txt": None,
        "results_pkl": None,
    }
    return FinetuningConfig.create(**{**given, **values, **outputs})


def _models_dir(base: FinetuningConfig) -> str:
    return f"{base.model_dir}{SEARCH_SUFFIX}"


def _folder_numbers(
    combinations: Sequence[Mapping[str, Any]], folder: str
) -> tuple[list[int], dict[int, Mapping[str, Any]]]:
    """Returns the numbers of the combinations, counted from 1, which name their folders.

    A combination keeps its number across searches. Also returns the combinations of earlier
    searches that are not in this one, by number.

    Args:
        combinations: combinations of this search.
        folder: folder of the models, where the numbers are recorded.

    Raises:
        UserError: the record is damaged.
    """
    path = os.path.join(folder, _COMBINATIONS_FILE)
    known = read_json(path).get(_COMBINATIONS, [])
    if not isinstance(known, list):
        raise UserError(f"{path}: {_COMBINATIONS!r} is {known!r:.80}, not a list")
    known += [values for values in combinations if values not in known]
    write_atomically(path, to_json({_COMBINATIONS: known}))
    numbers = [known.index(values) + 1 for values in combinations]
    others = {n: values for n, values in enumerate(known, start=1) if n not in numbers}
    return numbers, others


def check_combinations(
    combinations: Sequence[Mapping[str, Any]],
    configs: Sequence[FinetuningConfig],
    context: DistributionContext,
) -> None:
    """Raises UserError if the run of any combination would fail before it trains.

    Problems that all combinations share, such as a missing file, surface in the first run. So
    data is loaded here only if it differs between combinations, as with class weights, and
    checkpoints only if the shapes of the encoders differ.
    """
    tasks: list[list[Task]] = []
    for values, config in zip(combinations, configs, strict=True):
        with _naming_combination(values):
            check_batch_sizes(config, context.strategy, [TRAIN_BATCH_SIZE])
            tasks.append(find_tasks(config))
    data = [_data_key(*each) for each in zip(configs, tasks, strict=True)]
    encoders = [config.encoder for config in configs]
    are_alike = all(encoder == encoders[0] for encoder in encoders)
    for i, (values, config) in enumerate(zip(combinations, configs, strict=True)):
        with _naming_combination(values):
            if len(set(data)) > 1 and i == data.index(data[i]):
                load_data(config, tasks[i], TaskData(config, discard))
            if not are_alike and i == encoders.index(encoders[i]):
                Trainer(config, tasks[i], context, discard).start(config.seed)


def _data_key(config: FinetuningConfig, tasks: Sequence[Task]) -> str:
    """Returns a key that is equal for combinations with the same data and folds."""
    splits = [(task, split) for task in tasks for split in (TRAIN, *task.dev_splits)]
    features = [fingerprint(*each, is_training=each[1] == TRAIN) for each in splits]
    folds = [config.num_folds, config.selection_fraction, config.keep_best, config.seed]
    return json.dumps([features, folds if config.num_folds else None])


@contextlib.contextmanager
def _naming_combination(values: Mapping[str, Any]) -> Iterator[None]:
    """Names the combination in errors."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{FLAG}: {_flags(values)}: {error}") from error


def _score(config: FinetuningConfig, results: Sequence[TrialResult]) -> float | None:
    scores = []
    for task in config.task_names:
        found = [
            trial.metrics[key][trial.main[key]]
            for trial in results
            if trial.finished
            for key in [next(key for key in trial.metrics if key.startswith(f"{task}/"))]
        ]
        if not found:
            return None
        scores.append(statistics.fmean(found))
    score = statistics.fmean(scores)
    return score if math.isfinite(score) else None


def _best_first(runs: Sequence[SearchRun]) -> list[SearchRun]:
    return sorted(runs, key=lambda r: -math.inf if r.score is None else r.score, reverse=True)


def _to_json(
    runs: Sequence[SearchRun],
    combinations: Sequence[Mapping[str, Any]],
    others: Mapping[int, Mapping[str, Any]],
) -> str:
    ranked = [each.hyperparameters for each in runs]
    content = {
        "best_first": [each._asdict() for each in runs],
        "remaining": [values for values in combinations if values not in ranked],
        "of_earlier_searches": {f"run_{number}": values for number, values in others.items()},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _report(runs: Sequence[SearchRun], path: str, print_fn: Callable[[str], None]) -> None:
    names = list(runs[0].hyperparameters)
    rows = [
        [
            "-" if each.score is None else f"{each.score:.2f}",
            *(json.dumps(each.hyperparameters[name], ensure_ascii=False) for name in names),
        ]
        for each in runs
    ]
    print_fn("")
    print_fn(markdown_table(["score on dev", *names], rows, text_columns=0))
    for each in runs:
        if each.unfinished and each.score is not None:
            print_fn(
                f"{_flags(each.hyperparameters)}: the score leaves out "
                f"{each.unfinished} trials or folds that diverged"
            )
    if runs[0].score is not None:
        print_fn(f"Best: {_flags(runs[0].hyperparameters)}")
        print_fn(
            f"Its score is the best of {len(runs)} on dev, so it is optimistic: report a score "
            "on data that was not used for selection."
        )
    print_fn(f"Results: {path}")


def _flags(values: Mapping[str, Any]) -> str:
    """Formats values as command-line flags."""
    return " ".join(
        f"--{name}={json.dumps(value) if isinstance(value, bool) else value}"
        for name, value in values.items()
    )
