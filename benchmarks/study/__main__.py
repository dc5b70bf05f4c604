r"""Trains small models at equal compute, evaluates them, and reports the paper's orderings.

    make study
    python -m benchmarks.study --corpus_dir NOVELS --finetuning_data_dir TASKS --data_dir OUTPUT
    python -m benchmarks.study --report_only

Three stages: the gate (settings with which detection is learned), the claim (ELECTRA against
BERT at three budgets, four pre-training seeds each) and the ablations (section 3 of the paper).
Every run is a process that resumes, and its result is a file of REPORT_DIR/runs; the same
command continues where it stopped. The report needs these files alone.
"""

import pathlib
import shutil

from absl import flags

from benchmarks.study import data, figures, pages, report
from benchmarks.study.analysis import Scores
from benchmarks.study.plan import (
    ABLATION,
    CLAIM,
    FOLLOW_UP,
    GATE,
    NUM_TRIALS,
    STAGES,
    TASKS,
    Run,
    choose,
    plan,
)
from benchmarks.study.results import read_result
from benchmarks.study.sizes import SIZES, SMALL, TINY, Size
from benchmarks.study.work import Worker, complete_all, environment_of
from electra_tf.util.errors import UserError
from flags.command_line import program

_STAGES = flags.DEFINE_list("stages", list(STAGES), "Stages to run, in this order.")
_SIZE = flags.DEFINE_enum(
    "size",
    None,
    list(SIZES),
    "Size of the encoder. If unset, small to train on a GPU, else tiny.",
)
_CORPUS_DIR = flags.DEFINE_string("corpus_dir", None, "Folder of the text; a file a novel.")
_FINETUNING_DATA_DIR = flags.DEFINE_string(
    "finetuning_data_dir", None, "Folder of the tasks, in the authors' layout."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", "study", "Folder of records, models and fine-tunings; resumed if there."
)
_REPORT_DIR = flags.DEFINE_string(
    "report_dir",
    None,
    "Folder of results and report; benchmarks/results/study, or study_small there, if unset.",
)
_TASKS = flags.DEFINE_list("tasks", list(TASKS), "Tasks to evaluate on.")
_MODELS = flags.DEFINE_list("models", None, "Names of the models to run; all if unset.")
_SEEDS = flags.DEFINE_list("seeds", None, "Seeds to run; all if unset.")
_BUDGETS = flags.DEFINE_list(
    "budgets", None, "Budgets to run; all if unset. That of random weights is 0."
)
_NUM_TRIALS = flags.DEFINE_integer(
    "num_trials", NUM_TRIALS, "Fine-tuning seeds of a run.", lower_bound=1
)
_SCALE = flags.DEFINE_float("scale", 1.0, "Times all budgets; below 1 for a trial.")
_REPORT_ONLY = flags.DEFINE_bool(
    "report_only", False, "Run nothing; report from the results in the report folder."
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes", 2, "Runs at once; with more than one, each has one thread.", lower_bound=1
)


def main() -> int:
    """Runs what is missing, and writes the report of what is there."""
    size = _chosen_size()
    unknown = [stage for stage in _STAGES.value if stage not in STAGES]
    if unknown:
        raise UserError(f"--stages: {unknown[0]!r} is none of {', '.join(STAGES)}")
    default = "study" if size.name == TINY.name else f"study_{size.name}"
    folder = pathlib.Path(_REPORT_DIR.value or f"benchmarks/results/{default}")
    failed = [] if _REPORT_ONLY.value else _carry_out(size, folder)
    write_report(size, folder)
    for run in failed:
        print(f"Failed: {run.name}")
    return 1 if failed else 0


def _chosen_size() -> Size:
    has_gpu = shutil.which("nvidia-smi") and not _REPORT_ONLY.value
    name = _SIZE.value or (SMALL.name if has_gpu else TINY.name)
    return SIZES[name].scaled(_SCALE.value)


def _carry_out(size: Size, folder: pathlib.Path) -> list[Run]:
    for flag in (_CORPUS_DIR, _FINETUNING_DATA_DIR):
        if not flag.value:
            raise UserError(f"--{flag.name} is required, unless with --report_only")
    runs = choose(
        [run for stage in STAGES if stage in _STAGES.value for run in plan(stage, size)],
        _MODELS.value,
        _SEEDS.value,
        _BUDGETS.value,
    )
    lengths = {n for run in runs for n in run.settings.get("length_curriculum", ())}
    data_dir = pathlib.Path(_DATA_DIR.value).absolute()
    data.prepare(
        pathlib.Path(_CORPUS_DIR.value),
        pathlib.Path(_FINETUNING_DATA_DIR.value),
        data_dir,
        vocab_size=size.vocab_size,
        seq_length=size.seq_length,
        shorter_lengths=sorted(lengths),
        tasks=_TASKS.value,
        num_processes=_NUM_PROCESSES.value,
    )
    worker = Worker(
        size,
        data_dir,
        folder,
        tasks=_TASKS.value,
        num_trials=_NUM_TRIALS.value,
        environment=environment_of(_NUM_PROCESSES.value),
    )
    print(f"{len(runs)} runs; results in {folder / 'runs'}", flush=True)
    return complete_all(runs, worker, _NUM_PROCESSES.value)


def write_report(size: Size, folder: pathlib.Path) -> None:
    """Writes report, figures and numbers from the results in a folder."""
    results = {
        stage: [
            (run, result)
            for run in plan(stage, size)
            if (result := read_result(run.result_file(folder), run.settings, size.finetuning))
        ]
        for stage in STAGES
    }
    gate = [(run, result) for run, result in results[GATE] if result.pretraining]
    done = [*results[CLAIM], *results[ABLATION], *results[FOLLOW_UP]]
    folder.mkdir(parents=True, exist_ok=True)
    scores = Scores(done, size, _TASKS.value)
    drawn = figures.plot(gate, done, scores, folder)
    planned = {stage: len(plan(stage, size)) for stage in STAGES}
    sections = report.create_sections(gate, planned, done, scores, size, drawn)
    for path in pages.write_report(sections, folder):
        print(f"Report: {path}")


if __name__ == "__main__":
    program.run(main)
