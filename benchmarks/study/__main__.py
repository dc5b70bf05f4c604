r"""Trains small models under equal FLOPs, fine-tunes them, and writes a report.

    make study
    python -m benchmarks.study --corpus_dir CORPUS --finetuning_data_dir TASKS \
        --data_dir OUTPUT --scale 4

ELECTRA, BERT and the models between them (the paper's Table 5); what generator and
discriminator share, how large the generator is, and how both are trained (its section 3.2);
ELECTRA and BERT of half the width (section 3.4, Figure 4); ELECTRA with another seed. Each is
pre-trained with the FLOPs of ELECTRA's run, `--scale` times 8,000 updates, and fine-tuned with
several seeds, some also at a quarter and a half of the FLOPs. Everything that is done already
is kept: the same command goes on where it was stopped. About two hours on two cores. Report,
figures and numbers go to `--report_dir`.
"""

import json
import math
import os
import pathlib

from absl import flags

from benchmarks.finetuning_runs import run_all
from benchmarks.side_by_side import describe_machine
from benchmarks.study import data, figures, pages, report, runs, scores
from benchmarks.study.models import Model, Start
from benchmarks.study.variants import (
    COMMON,
    EFFICIENCY,
    TRAINING,
    VARIANTS,
    Variant,
    choose_variants,
    encoder_of,
    flops_of,
    settings_of,
)
from electra_tf.flops.counting import Transformer
from electra_tf.flops.published import INFERENCE_LENGTH
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from flags import command_line

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", None, "Folder of the text.")
_FINETUNING_DATA_DIR = flags.DEFINE_string(
    "finetuning_data_dir", None, "Folder of the tasks, in the authors' layout."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", "study", "Folder of records, models and fine-tunings; resumed if there."
)
_REPORT_DIR = flags.DEFINE_string(
    "report_dir", "benchmarks/results/study", "Folder of the report, its figures and numbers."
)
_SCALE = flags.DEFINE_float("scale", 1.0, "Times the FLOPs of the smallest study.")
_TASKS = flags.DEFINE_list("tasks", "chunk,pos", "Tasks, one by one.")
_NUM_TRAIN_EXAMPLES = flags.DEFINE_integer(
    "num_train_examples",
    1000,
    "Of each task's training set, so many from its beginning: small sets need what "
    "pre-training gives, large ones teach it anew.",
    lower_bound=32,
)
_NUM_TRIALS = flags.DEFINE_integer("num_trials", 3, "Seeds of each fine-tuning.", lower_bound=2)
_VARIANTS = flags.DEFINE_list("variants", None, "Names of the models; all if unset.")
_REPORT_ONLY = flags.DEFINE_bool(
    "report_only", False, "Train nothing; report what has been fine-tuned so far."
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes", 2, "Programs at once; each has one thread then.", lower_bound=1
)


def main() -> int:
    """Runs what is missing, and writes the report of what is there."""
    for flag in (_CORPUS_DIR, _FINETUNING_DATA_DIR):
        if not flag.value:
            raise UserError(f"--{flag.name} is required")
    if not _SCALE.value > 0:
        raise UserError(f"--scale must be positive, not {_SCALE.value}")
    variants = choose_variants(_VARIANTS.value)
    data_dir = pathlib.Path(_DATA_DIR.value).absolute()
    data.prepare(
        pathlib.Path(_CORPUS_DIR.value),
        pathlib.Path(_FINETUNING_DATA_DIR.value),
        data_dir,
        vocab_size=COMMON["vocab_size"],
        seq_length=COMMON["max_seq_length"],
        tasks=_TASKS.value,
        num_train_examples=_NUM_TRAIN_EXAMPLES.value,
    )
    if not _REPORT_ONLY.value:
        runs.pretrain(
            variants, data_dir, scale=_SCALE.value, num_processes=_NUM_PROCESSES.value
        )
    finetunings = runs.finetuning_runs(
        variants, _TASKS.value, data_dir, scale=_SCALE.value, shares_of=_shares
    )
    trials = _NUM_TRIALS.value
    missing = [run for _, run in _by_use(finetunings) if run.results(trials) is None]
    print(f"{len(finetunings)} fine-tunings, {len(missing)} of them to do", flush=True)
    failed = [] if _REPORT_ONLY.value else run_all(missing, trials, _NUM_PROCESSES.value)
    _report(variants, finetunings, data_dir)
    for run in failed:
        print(f"Failed: {run.label}; see {run.folder}")
    return 1 if failed else 0


def _by_use(finetunings: list[tuple[Start, runs.Run]]) -> list[tuple[Start, runs.Run]]:
    """Sorts for a study that is stopped early: ends of runs first, all tasks of one start."""
    names = [variant.name for variant in VARIANTS]

    def order(item: tuple[Start, runs.Run]) -> tuple[bool, float, int]:
        (name, share), _ = item
        return share in runs.SHARES[:-1], share, names.index(name) if name in names else 0

    return sorted(finetunings, key=order)


def _shares(variant: Variant) -> tuple[float, ...]:
    curves = {EFFICIENCY, TRAINING} & set(variant.questions)
    # What is fine-tuned has not begun to learn before the second of two stages.
    begins_late = variant.settings.get("objective") == "two_stage"
    return runs.SHARES if curves and not begins_late else runs.WHOLE


def _report(
    variants: list[Variant],
    finetunings: list[tuple[Start, runs.Run]],
    data_dir: pathlib.Path,
) -> None:
    by_task: dict[str, dict[Start, scores.Score]] = {}
    for start, run in finetunings:
        score = scores.score_of(run, _NUM_TRIALS.value)
        if score is not None:
            by_task.setdefault(run.task, {})[start] = score
    averages = scores.averages(by_task)
    models = [model for variant in variants if (model := _model(variant, data_dir))]
    if not models:
        raise UserError(f"--report_only: {data_dir} holds no model that was trained to its end")
    facts = {
        "machine": describe_machine(None),
        "command": f"python -m benchmarks.study --scale {_SCALE.value:g}",
        "seeds": _NUM_TRIALS.value,
        "scale": _SCALE.value,
        "num_train_examples": _NUM_TRAIN_EXAMPLES.value,
        "most_frequent_share": data.most_frequent_share(
            data_dir, vocab_size=COMMON["vocab_size"], seq_length=COMMON["max_seq_length"]
        ),
    }
    folder = pathlib.Path(_REPORT_DIR.value)
    os.makedirs(folder, exist_ok=True)
    figures.plot(models, averages, folder)
    paths = pages.write_report(report.create_sections(models, by_task, averages, facts), folder)
    content = {
        **facts,
        "models": [vars(model) for model in models],
        "scores": [
            {"task": task, "model": name, "share": share, **vars(score)}
            for task, found in by_task.items()
            for (name, share), score in found.items()
        ],
        "averages": [
            {"model": name, "share": share, **vars(score)}
            for (name, share), score in averages.items()
        ],
    }
    numbers = folder / "study.json"
    write_atomically(str(numbers), json.dumps(content, indent=2) + "\n")
    rows = [[name, f"{share:g}", str(score)] for (name, share), score in averages.items()]
    print(markdown_table(["model", "share of the FLOPs", "average"], rows, text_columns=1))
    for path in (*paths, numbers):
        print(f"Report: {path}")


def _model(variant: Variant, data_dir: pathlib.Path) -> Model | None:
    settings = settings_of(variant, _SCALE.value)
    model_dir = data_dir / "models" / variant.folder
    if not runs.is_trained(settings, model_dir):
        return None
    description = json.loads((model_dir / "config.json").read_text())
    sizes = {name: math.prod(shape) for name, shape in description["variables"].items()}
    log = (model_dir / "train_log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in log]
    held_out = [record for record in records if record["kind"] == "eval"]
    steps = settings["num_train_steps"]
    return Model(
        name=variant.name,
        questions=variant.questions,
        hidden_size=variant.hidden_size,
        seed=description["hyperparameters"]["seed"],
        steps=steps,
        flops=flops_of(settings, steps),
        inference_flops=Transformer.of(encoder_of(settings), INFERENCE_LENGTH).inference(),
        parameters=sum(sizes.values()),
        encoder_parameters=sum(n for name, n in sizes.items() if name.startswith("electra/")),
        pretraining={
            k: v for record in held_out[-1:] for k, v in record.items() if isinstance(v, float)
        },
    )


if __name__ == "__main__":
    command_line.run(main)
