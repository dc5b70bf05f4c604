"""Carries out runs: pre-training, probes and fine-tunings, each a process that resumes."""

import concurrent.futures
import json
import pathlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import finetuning_runs
from benchmarks.finetuning_runs import ONE_THREAD, run_logged
from benchmarks.side_by_side import describe_machine
from benchmarks.study.models import RANDOM, model_flops_of, paper_flops_of
from benchmarks.study.plan import Run
from benchmarks.study.results import (
    FINETUNING,
    KINDS,
    PROBE,
    Result,
    read_result,
    rounded,
    write_result,
)
from benchmarks.study.sizes import Size
from electra_tf.util.console import format_seconds
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT

# Held-out text is evaluated, and a checkpoint saved, so many times a run.
_EVALUATIONS = 8
# Held-out metrics that a result keeps.
METRICS = (
    "loss",
    "disc_loss",
    "disc_auc",
    "disc_auc_within_token",
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sampled_masked_lm_accuracy",
    "replaced_share",
)
# Fine-tuning seeds of different pre-training seeds are different.
_SEEDS_APART = 1000


class Worker:
    """Does what is missing of runs, and writes each result as soon as it is there.

    Args:
        size: of the study.
        data_dir: of records, models and fine-tunings.
        folder: of the results.
        tasks, num_trials: of the fine-tunings.
        environment: variables of the processes.
    """

    def __init__(
        self,
        size: Size,
        data_dir: pathlib.Path,
        folder: pathlib.Path,
        *,
        tasks: Sequence[str],
        num_trials: int,
        environment: Mapping[str, str],
        print_fn: Callable[[str], None] = print,
    ) -> None:
        self._size = size
        self._data_dir = data_dir
        self._folder = folder
        self._tasks = tasks
        self._num_trials = num_trials
        self._environment = environment
        self._print = print_fn
        self._machine = describe_machine(None)

    def complete(self, run: Run) -> None:
        """Trains, probes and fine-tunes what a run does not have yet.

        Raises:
            UserError: a process failed; its log is named.
        """
        path = run.result_file(self._folder)
        result = read_result(path, run.settings, self._size.finetuning)
        if result is None:
            result = Result(
                settings=dict(run.settings), finetuning_flags=list(self._size.finetuning)
            )
            result.machine = self._machine
        missing = {
            kind: [task for task in self._tasks if not result.has(kind, task)] for kind in KINDS
        }
        is_random = run.model == RANDOM.name
        evaluates = run.is_evaluated and any(missing.values())
        if not is_random and (evaluates or not result.pretraining):
            self._pretrain(run)
            parts = [run] if run.starts_from is None else [run.starts_from, run]
            result.model_flops = _total(parts, model_flops_of)
            result.paper_flops = _total(parts, paper_flops_of)
            trained = read_pretraining(self._model_dir(run))
            if run.starts_from:
                first = read_pretraining(self._model_dir(run.starts_from))
                trained["seconds"] += first["seconds"]
            pretraining = rounded(trained)
            if result.pretraining and result.pretraining["metrics"] != pretraining["metrics"]:
                # The scores are of weights that are gone: another processor trains others.
                result.scores, result.seconds = {}, {}
                result.machine = self._machine
                for folder in (
                    self._probe_dir(run),
                    *(self._finetuned_dir(run, task) for task in self._tasks),
                ):
                    shutil.rmtree(folder, ignore_errors=True)
                missing = {kind: list(self._tasks) for kind in KINDS}
            result.pretraining = pretraining
            write_result(path, result)
        if not evaluates:
            return
        if missing[PROBE]:
            start = time.monotonic()
            scores = self._probe(run, missing[PROBE])
            result.scores.setdefault(PROBE, {}).update(scores)
            result.seconds[f"{PROBE}/{','.join(scores)}"] = time.monotonic() - start
            write_result(path, result)
        for task in missing[FINETUNING]:
            start = time.monotonic()
            values = self._finetune(run, task)
            result.scores.setdefault(FINETUNING, {})[task] = values
            result.seconds[f"{FINETUNING}/{task}"] = time.monotonic() - start
            write_result(path, result)

    def _model_dir(self, run: Run) -> pathlib.Path:
        return self._data_dir / "models" / run.name

    def _probe_dir(self, run: Run) -> pathlib.Path:
        return self._data_dir / "probes" / run.name

    def _finetuned_dir(self, run: Run, task: str) -> pathlib.Path:
        return self._data_dir / "finetuned" / task / run.name

    def _pretrain(self, run: Run) -> None:
        if run.starts_from:
            self._pretrain(run.starts_from)
        model_dir = self._model_dir(run)
        steps = run.settings["num_train_steps"]
        if is_trained(run.settings, model_dir):
            return
        given = {
            **run.settings,
            "save_checkpoints_steps": max(1, -(-steps // _EVALUATIONS)),
            "keep_checkpoint_max": 1,
            "iterations_per_loop": 100,
            "log_steps": 250,
            "eval_tfrecords": str(self._data_dir / "eval_tfrecords" / "*.tfrecord*"),
            "report": False,
        }
        if run.starts_from:
            given["init_checkpoint"] = str(self._model_dir(run.starts_from))
        arguments = [f"--data_dir={self._data_dir}", f"--model_name={run.name}"]
        program = ["run_pretraining.py", *arguments, f"--hparams={json.dumps(given)}"]
        self._process(f"{run.name}, pre-training", program, model_dir / "log.txt")

    def _probe(self, run: Run, tasks: Sequence[str]) -> dict[str, list[float]]:
        folder = self._probe_dir(run)
        output = folder / "scores.json"
        program = ["-m", "benchmarks.study.probe", f"--tasks={','.join(tasks)}"]
        program += [f"--output={output}", *self._task_flags(run, folder)]
        self._process(f"{run.name}, probes", program, folder / "log.txt")
        return json.loads(output.read_text(encoding="utf-8"))

    def _finetune(self, run: Run, task: str) -> list[float]:
        folder = self._finetuned_dir(run, task)
        flags = (
            *self._task_flags(run, folder),
            f"--task_names={task}",
            f"--model_dir={folder / 'model'}",
            f"--results_dir={folder / 'results'}",
            "--eval_steps=1000000",
            "--keep_all_models=false",
            "--report=false",
        )
        finetuning = finetuning_runs.Run(task, run.name, folder, flags)
        if finetuning.results(self._num_trials) is None:
            self._print(f"{run.name}, {task}: started, log {folder / 'log.txt'}")
            finetuning.run(self._num_trials, self._environment)
        trials = finetuning.results(self._num_trials)
        if trials is None:
            raise UserError(f"Fine-tuning {run.name} on {task} failed; see {folder}/log.txt")
        # A seed that learned nothing counts with what it got.
        key = f"{task}/dev"
        return [float(t.metrics[key][t.main[key]]) for t in trials if t.finished]

    def _task_flags(self, run: Run, folder: pathlib.Path) -> list[str]:
        """Returns the flags of run_finetuning.py that a probe has, too."""
        flags = [
            f"--data_dir={self._data_dir}",
            "--model_name=study",
            f"--vocab_file={self._data_dir / 'vocab.txt'}",
            f"--preprocessed_data_dir={folder / 'features'}",
            f"--seed={_SEEDS_APART * run.seed}",
            *self._size.finetuning,
        ]
        if run.model != RANDOM.name:
            return [*flags, f"--init_checkpoint={self._model_dir(run)}"]
        shape = {**run.settings}
        # The last value of a flag counts: the whole shape, with the dropout of fine-tuning.
        shape["model_hparam_overrides"] = {
            **shape.get("model_hparam_overrides", {}),
            **_overrides(self._size.finetuning),
        }
        given = [
            f"--{name}={json.dumps(value) if isinstance(value, dict) else value}"
            for name, value in shape.items()
        ]
        return [*flags, *given, f"--init_checkpoint={RANDOM_INIT}"]

    def _process(self, label: str, program: Sequence[str], log: pathlib.Path) -> None:
        self._print(f"{label}: started, log {log}")
        start = time.monotonic()
        if run_logged(program, log, self._environment):
            raise UserError(f"{label} failed; see {log}")
        self._print(f"{label}: finished in {format_seconds(time.monotonic() - start)}")


def complete_all(
    runs: Sequence[Run],
    worker: Worker,
    num_processes: int,
    print_fn: Callable[[str], None] = print,
) -> list[Run]:
    """Completes runs, `num_processes` at once, and returns those that failed."""

    def succeeds(run: Run) -> bool:
        try:
            worker.complete(run)
        except UserError as error:
            print_fn(f"FAILED: {error}")
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(num_processes) as pool:
        succeeded = list(pool.map(succeeds, runs))
    return [run for run, good in zip(runs, succeeded, strict=True) if not good]


def environment_of(num_processes: int) -> dict[str, str]:
    """Returns the variables of one of several processes: each has one thread."""
    return dict(ONE_THREAD) if num_processes > 1 else {}


def is_trained(settings: Mapping[str, Any], model_dir: pathlib.Path) -> bool:
    """Returns whether a run has come to its end.

    Raises:
        UserError: it was made with other settings.
    """
    if not (model_dir / f"ckpt-{settings['num_train_steps']}.index").exists():
        return False
    made_with = json.loads((model_dir / "config.json").read_text())["hyperparameters"]
    for name, value in settings.items():
        # A size of 0 is that of the hidden layers there.
        if made_with[name] != value and value != 0:
            raise UserError(
                f"{model_dir} was made with other settings: choose another --data_dir, or "
                f"remove it. There {name} is {made_with[name]}, and now {value}."
            )
    return True


def read_pretraining(model_dir: pathlib.Path) -> dict[str, Any]:
    """Returns what a result keeps of a run: see `Result.pretraining`."""
    log = (model_dir / "train_log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in log]
    info = json.loads((model_dir / "run_info.json").read_text())
    seconds, step = 0.0, 0
    for record in records:
        if record["kind"] == "train" and record["step"] > step:
            seconds += (record["step"] - step) / record["steps_per_second"]
            step = record["step"]
    curve = {
        record["step"]: {name: record[name] for name in METRICS if name in record}
        for record in records
        if record["kind"] == "eval"
    }
    return {
        "seconds": seconds,
        "unigram_accuracy": info["data"]["unigram_accuracy"],
        "metrics": curve[max(curve)] if curve else {},
        "curve": [{"step": at, **curve[at]} for at in sorted(curve)],
    }


def _total(parts: Sequence[Run], flops_per_step: Callable[[dict[str, Any]], float]) -> float:
    """Returns the FLOPs of the pre-trainings together."""
    settings = [dict(run.settings) for run in parts]
    return float(sum(s["num_train_steps"] * flops_per_step(s) for s in settings))


def _overrides(flags: Sequence[str]) -> dict[str, Any]:
    name = "--model_hparam_overrides="
    given = [flag.removeprefix(name) for flag in flags if flag.startswith(name)]
    return json.loads(given[-1]) if given else {}
