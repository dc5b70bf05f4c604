r"""Fine-tunes the same weights with this project and with Hugging Face, and compares scores.

    python -m benchmarks.finetuning_peer --tasks sst,sts --torch_python TORCH/bin/python \
        --output_dir OUTPUT --data_dir DATA --model_name NAME --init_checkpoint DATA/models/NAME

Further flags are those of run_finetuning.py; `--num_trials` is the number of seeds of both.
The weights are converted by `convert_checkpoint.py`, and PyTorch gets the features, metrics
and hyperparameters of this project, so what differs is the training: layers, losses, dropout,
gradients, the optimizer, the order of examples, and padding. The tasks are classification and
regression of texts and pairs. The table has means and standard deviations over the seeds, and
the difference with its 95 % interval by Welch's method.
"""

import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats
from absl import flags

from benchmarks.finetuning_runs import LOG_FILE, Run, run_logged
from benchmarks.side_by_side import NUM_CORES, describe_machine
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from electra_tf.util.tensorflow_import import import_tensorflow
from flags import finetuning
from flags.command_line import program, program_names

_TASKS = flags.DEFINE_list("tasks", None, "Tasks, one by one.", required=True)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder of all runs; resumed if there.", required=True
)
_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers.", required=True
)

_NUM_THREADS = flags.DEFINE_integer(
    "num_threads", NUM_CORES, "Threads of either program.", lower_bound=1
)

_PEER = pathlib.Path(__file__).with_name("huggingface_finetuning.py")
_HYPERPARAMETERS = (
    "train_batch_size",
    "learning_rate",
    "num_train_epochs",
    "warmup_proportion",
    "layerwise_lr_decay",
    "weight_decay_rate",
    "clip_norm",
)
# Flags of this program, which run_finetuning.py does not have or gets otherwise.
_OWN = ("tasks", "output_dir", "torch_python", "task_names", "model_dir", "results_dir")
_CONFIDENCE = 0.95


def main() -> None:
    """Fine-tunes every task on both sides, and prints the table."""
    machine = describe_machine(_TORCH_PYTHON.value)
    given = {**finetuning.explicit_settings(), "report": False}
    output_dir = pathlib.Path(_OUTPUT_DIR.value).absolute()
    import_tensorflow()
    huggingface = _convert(given, output_dir)
    rows = []
    for task in _TASKS.value:
        folder = output_dir / task
        ours = _ours(given, task, folder)
        theirs = _theirs(given, task, folder, huggingface)
        rows.append([task, _shown(ours), _shown(theirs), _difference(ours, theirs)])
        program_names.print_line(f"{task}: {ours} and {theirs}")
    print(machine)
    header = ["task", "electra_tf", "Hugging Face", "difference [95 %]"]
    print(markdown_table(header, rows, text_columns=1))


def _convert(given: dict[str, Any], output_dir: pathlib.Path) -> pathlib.Path:
    """Converts the weights that fine-tuning starts from; returns the folder of the encoder."""
    folder = output_dir / "huggingface"
    if not folder.exists():
        arguments = [f"--from={given.get('init_checkpoint')}", "--to_format=huggingface"]
        if vocabulary := given.get("vocab_file"):
            arguments.append(f"--vocab_file={vocabulary}")
        part = folder.with_name("huggingface.part")
        program = ["convert_checkpoint.py", *arguments, f"--output={part}", "--overwrite"]
        log = output_dir / "convert_log.txt"
        if run_logged(program, log, {}):
            raise UserError(f"The weights could not be converted; see {log}")
        part.rename(folder)
    discriminator = folder / "discriminator"
    return discriminator if discriminator.exists() else folder


def _ours(given: dict[str, Any], task: str, folder: pathlib.Path) -> list[float]:
    """Returns the scores of run_finetuning.py, one a seed."""
    passed = [f"--{name}={_text(v)}" for name, v in given.items() if name not in _OWN]
    run = Run(
        task,
        "electra_tf",
        folder / "electra_tf",
        (
            *passed,
            f"--task_names={task}",
            f"--model_dir={folder / 'electra_tf' / 'model'}",
            f"--results_dir={folder / 'electra_tf' / 'results'}",
        ),
    )
    num_trials = given.get("num_trials", 1)
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    environment = dict.fromkeys(threads, str(_NUM_THREADS.value))
    if run.results(num_trials) is None and run.run(num_trials, environment):
        raise UserError(f"Fine-tuning failed; see {run.folder / LOG_FILE}")
    trials = run.results(num_trials)
    if trials is None:
        raise UserError(f"There are no results; see {run.folder / LOG_FILE}")
    key = f"{task}/dev"
    return [float(trial.metrics[key][trial.main[key]]) for trial in trials]


def _theirs(
    given: dict[str, Any], task_name: str, folder: pathlib.Path, huggingface: pathlib.Path
) -> list[float]:
    """Returns the scores of Hugging Face's model, one a seed; PyTorch's outputs are kept."""
    from benchmarks.task_rows import load_task
    from finetune.config.finetuning import FinetuningConfig
    from finetune.config.task_kinds import CLASSIFICATION, REGRESSION
    from finetune.tasks.base import TRAIN
    from finetune.tasks.text.base import DROPOUT_RATE

    config = FinetuningConfig.create(**given, task_names=(task_name,))
    task, data, dev = load_task(config)
    if task.kind not in (CLASSIFICATION, REGRESSION):
        raise UserError(f"--tasks: {task_name} is of the kind {task.kind.name}: only texts are")
    train = data.get(task, TRAIN, is_training=True)
    is_regression = task.kind is REGRESSION
    label = f"{task_name}_targets" if is_regression else f"{task_name}_label_ids"
    outputs, part = folder / "huggingface_outputs.npy", folder / "part.npy"
    settings = {
        **{name: getattr(config, name) for name in _HYPERPARAMETERS},
        "huggingface": str(huggingface),
        "hidden_dropout_prob": config.encoder.hidden_dropout_prob,
        "attention_probs_dropout_prob": config.encoder.attention_probs_dropout_prob,
        "head_dropout": DROPOUT_RATE,
        "num_outputs": 1 if is_regression else len(task.labels),
        "seeds": [config.seed + trial for trial in range(config.num_trials)],
        "num_threads": _NUM_THREADS.value,
        "train": str(folder / "train.npz"),
        "dev": str(folder / "dev.npz"),
        "outputs": str(part),
    }
    text = json.dumps(settings, indent=1) + "\n"
    settings_file = folder / "huggingface_settings.json"
    if outputs.exists() and settings_file.read_text(encoding="utf-8") != text:
        raise UserError(f"{settings_file} has other settings: choose another --output_dir")
    if not outputs.exists():
        write_atomically(str(settings_file), text)
        _write_rows(train.rows, label, settings["train"])
        _write_rows(dev.rows, label, settings["dev"])
        log = folder / "huggingface_log.txt"
        if run_logged([str(_PEER), str(settings_file)], log, {}, _TORCH_PYTHON.value):
            raise UserError(f"Fine-tuning with Hugging Face failed; see {log}")
        part.rename(outputs)
    return [_score(task, dev, of_seed) for of_seed in np.load(outputs)]


def _score(task: Any, dev: Any, outputs: np.ndarray) -> float:
    """Returns the main metric of outputs [rows, outputs]."""
    if outputs.shape[1] == 1:
        rows = [{"predictions": value, "loss": np.float64(0)} for value in outputs[:, 0]]
    else:
        rows = [
            {"predictions": logits.argmax(), "logits": logits, "loss": np.float64(0)}
            for logits in outputs
        ]
    return float(task.score(dev, rows).main_value)


def _write_rows(rows: Sequence[dict], label: str, path: str) -> None:
    """Writes what PyTorch reads: see `huggingface_finetuning.Rows`."""
    from finetune.data.features import INPUT_IDS, SEGMENT_IDS

    labels = np.array([row[label] for row in rows])
    is_class = np.issubdtype(labels.dtype, np.integer)
    np.savez(
        path,
        ids=np.concatenate([row[INPUT_IDS] for row in rows]).astype(np.int32),
        segments=np.concatenate([row[SEGMENT_IDS] for row in rows]).astype(np.int32),
        lengths=np.array([len(row[INPUT_IDS]) for row in rows]),
        labels=labels.astype(np.int64 if is_class else np.float32),
    )


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _shown(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f} (1)"
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    return f"{mean:.2f} ± {deviation:.2f} ({len(values)})"


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Returns ours − theirs with Welch's interval; equal values have none."""
    difference = statistics.fmean(ours) - statistics.fmean(theirs)
    if min(len(ours), len(theirs)) < 2 or len({*ours, *theirs}) == 1:
        return f"{difference:+.2f}"
    interval = scipy.stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(
        _CONFIDENCE
    )
    return f"{difference:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


if __name__ == "__main__":
    finetuning.define_flags()
    program.run(main)
