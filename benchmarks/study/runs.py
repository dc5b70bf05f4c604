"""Pre-trains the variants and fine-tunes their checkpoints, where that is not done yet."""

import concurrent.futures
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.finetuning_runs import ONE_THREAD, Run, run_logged
from benchmarks.study.models import Start, random_start
from benchmarks.study.variants import Variant, checkpoint_steps, settings_of
from electra_tf.util.console import format_seconds
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT

# Shares of the FLOPs at which checkpoints are fine-tuned.
SHARES = (0.25, 0.5, 1.0)
WHOLE = (1.0,)
# The rate is the best of five for checkpoints of recipes/tiny.flags; all dev sentences are
# looked at once, at the end.
FINETUNING_FLAGS = (
    "--learning_rate=1e-3",
    "--num_train_epochs=5",
    "--max_seq_length=64",
    "--bucket_by_length=false",
    "--eval_steps=1000000",
    "--keep_all_models=false",
    '--model_hparam_overrides={"hidden_dropout_prob": 0.1}',
)


def pretrain(
    variants: Sequence[Variant],
    data_dir: pathlib.Path,
    *,
    scale: float,
    num_processes: int,
    print_fn: Callable[[str], None] = print,
) -> None:
    """Trains every variant to its end; a run that was stopped goes on.

    Raises:
        UserError: a run failed; its log is named.
    """
    environment = ONE_THREAD if num_processes > 1 else {}
    # Counting FLOPs imports TensorFlow, which several threads must not do at once.
    settings_by_name = {variant.name: settings_of(variant, scale) for variant in variants}

    def one(variant: Variant) -> None:
        settings = settings_by_name[variant.name]
        model_dir = data_dir / "models" / variant.folder
        steps = settings["num_train_steps"]
        if is_trained(settings, model_dir):
            return
        # All shares have to be at a step that is saved.
        interval = checkpoint_steps(steps, SHARES)[0]
        given = {
            **settings,
            "save_checkpoints_steps": interval,
            "keep_checkpoint_max": 0,
            "iterations_per_loop": 50,
            "log_steps": 250,
            "eval_tfrecords": str(data_dir / "eval_tfrecords" / "*.tfrecord*"),
        }
        start = time.monotonic()
        log = model_dir / "log.txt"
        status = run_logged(
            [
                "run_pretraining.py",
                f"--data_dir={data_dir}",
                f"--model_name={variant.folder}",
                f"--hparams={json.dumps(given)}",
            ],
            log,
            environment,
        )
        if status:
            raise UserError(f"Pre-training {variant.name} failed; see {log}")
        print_fn(f"{variant.name}: {steps} steps in {format_seconds(time.monotonic() - start)}")

    _all(one, variants, num_processes)


def is_trained(settings: dict[str, Any], model_dir: pathlib.Path) -> bool:
    """Returns whether a run has come to its end.

    Raises:
        UserError: it was made with other settings.
    """
    if not (model_dir / f"ckpt-{settings['num_train_steps']}.index").exists():
        return False
    made_with = json.loads((model_dir / "config.json").read_text())["hyperparameters"]
    for name, value in settings.items():
        if made_with[name] != value:
            raise UserError(
                f"{model_dir} was made with other settings: choose another --data_dir, or "
                f"remove it. There {name} is {made_with[name]}, and now {value}."
            )
    return True


def saved_steps(settings: dict[str, Any]) -> list[int]:
    """Returns the steps of the checkpoints at `SHARES` of the FLOPs."""
    steps = settings["num_train_steps"]
    interval = checkpoint_steps(steps, SHARES)[0]
    # Checkpoints are saved at multiples of the first, and at the end.
    return [interval, 2 * interval, steps]


def finetuning_runs(
    variants: Sequence[Variant],
    tasks: Sequence[str],
    data_dir: pathlib.Path,
    *,
    scale: float,
    shares_of: Callable[[Variant], Sequence[float]],
) -> list[tuple[Start, Run]]:
    """Returns the fine-tunings of each task from each checkpoint, and from random weights."""
    runs: list[tuple[Start, Run]] = []
    shapes = {v.hidden_size: settings_of(v, scale) for v in reversed(variants)}
    for task in tasks:
        for variant in variants:
            settings = settings_of(variant, scale)
            steps = dict(zip(SHARES, saved_steps(settings), strict=True))
            for share in shares_of(variant):
                prefix = data_dir / "models" / variant.folder / f"ckpt-{steps[share]}"
                start = f"{variant.folder}_{share:g}"
                run = _run(task, start, data_dir, str(prefix))
                runs.append(((variant.name, share), run))
        for hidden_size, shape in sorted(shapes.items(), reverse=True):
            overrides = {**shape["model_hparam_overrides"], "hidden_dropout_prob": 0.1}
            random = (
                "--model_size=small",
                f"--embedding_size={shape['embedding_size']}",
                f"--vocab_size={shape['vocab_size']}",
                f"--model_hparam_overrides={json.dumps(overrides)}",
            )
            run = _run(task, f"random_{hidden_size}", data_dir, RANDOM_INIT, *random)
            runs.append((random_start(hidden_size), run))
    return runs


def _run(task: str, start: str, data_dir: pathlib.Path, checkpoint: str, *more: str) -> Run:
    folder = data_dir / "finetuned" / task / start
    flags = (
        f"--data_dir={data_dir}",
        "--model_name=study",
        f"--task_names={task}",
        f"--init_checkpoint={checkpoint}",
        f"--model_dir={folder / 'model'}",
        f"--results_dir={folder / 'results'}",
        f"--preprocessed_data_dir={folder / 'features'}",
        *FINETUNING_FLAGS,
        *more,
    )
    return Run(task, start, folder, flags)


def _all(function: Callable[[Any], None], values: Sequence[Any], num_processes: int) -> None:
    """Calls the function with each value, some at once; starts no more after an error."""
    with concurrent.futures.ThreadPoolExecutor(num_processes) as pool:
        try:
            for result in [pool.submit(function, value) for value in values]:
                result.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
