"""Flags of `report.py`, and the reports at the end of runs."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.report.page import write_report
from electra_tf.report.reference import find_references
from electra_tf.report.runs import ReportRun, has_log, read_training_run
from electra_tf.training.monitoring.run_info import LOG_FILE
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.output_checks import check_output_file
from electra_tf.util.path_checks import check_not_empty
from electra_tf.util.paths import is_remote
from finetune.config.finetuning import FinetuningConfig
from finetune.results.report_runs import read_finetuning_run, results_files
from finetune.results.result_files import JSON_SUFFIX
from flags.command_line.recipe_files import recipes_dir
from flags.remote import paths as remote_paths
from flags.remote.paths import ARGUMENTS, Role

REPORT_FILE = "report.html"
# Number of bytes to read to recognize an HTML page.
_START_OF_PAGE = 100
# Flags that accept remote paths (gs://…).
REMOTE = {ARGUMENTS: Role.ITSELF, "output": Role.OUTPUT_FILE}


@dataclasses.dataclass(frozen=True)
class ReportConfig:
    """Runs to report on.

    Attributes:
        runs: folders of pre-training or of a trial's model, `*_results.json` files, or folders
            of them.
        output: HTML file to write.
    """

    runs: tuple[str, ...]
    output: str


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines `--output`."""
    flags.DEFINE_string(
        "output",
        None,
        f"HTML file to write. If unset, {REPORT_FILE} in the run's folder, or "
        f"TASKS_{REPORT_FILE} beside TASKS{JSON_SUFFIX}; for several runs or a remote run, in "
        "the current folder.",
        flag_values=flag_values,
        module_name=sys.argv[0],
    )


def config_from_flags(
    arguments: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> ReportConfig:
    """Returns the configuration of the parsed flags and the runs given as arguments.

    Raises:
        UserError: no run is given, or one does not exist.
    """
    if not arguments:
        raise UserError(
            "Name the runs: folders with a "
            f"{LOG_FILE} (DATA_DIR/models/NAME), or fine-tuning results (*{JSON_SUFFIX})"
        )
    runs = tuple(os.path.expanduser(path) for path in arguments)
    for path in runs:
        if not os.path.exists(path):
            raise UserError(f"No such run: {path}")
    output = flag_values.output
    check_not_empty(output, "--output")
    if output is None:
        output = _path_beside(runs[0]) if len(runs) == 1 else REPORT_FILE
    output = os.path.expanduser(output)
    check_output_file(output, "--output")
    _check_replaceable(output)
    return ReportConfig(runs, output)


def _path_beside(run: str) -> str:
    """Returns the path of the report that the run itself writes, if it writes one."""
    if os.path.isdir(run):
        return os.path.join(run, REPORT_FILE)
    if run.endswith(JSON_SUFFIX):
        return f"{run.removesuffix(JSON_SUFFIX)}_{REPORT_FILE}"
    return os.path.join(os.path.dirname(run), REPORT_FILE)


def _check_replaceable(output: str) -> None:
    """Raises UserError if the output would replace a file that is not a report."""
    if os.path.isfile(output):
        with open(output, "rb") as file:
            start = file.read(_START_OF_PAGE).lstrip().lower()
        if start and not start.startswith(b"<!doctype html"):
            raise UserError(f"--output={output} exists and is not a report: pass another path")


@contextlib.contextmanager
def local_runs(
    arguments: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> Iterator[list[str]]:
    """Yields the runs, with local copies of remote ones, whose page goes to the current folder.

    Raises:
        UserError: a run cannot be read.
    """
    if flag_values.output is None and any(map(is_remote, arguments)):
        flag_values.output = REPORT_FILE
    with remote_paths.local_runs(arguments) as runs:
        yield runs


def read_runs(paths: Sequence[str]) -> list[ReportRun]:
    """Reads the runs; those with the same name are named by their paths.

    Raises:
        UserError: a path is not a run, or a file of it is damaged.
    """
    found = [(path, run) for path in paths for run in _runs_of(path)]
    names = [run.name for _, run in found]
    return [
        dataclasses.replace(run, name=path) if names.count(run.name) > 1 else run
        for path, run in found
    ]


def references_of(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """Returns the reference curves of recipes that have the settings of any of the runs.

    Raises:
        UserError: a file of `recipes/reference` is damaged.
    """
    folder = recipes_dir() / "reference"
    found = [each for run in runs for each in find_references(folder, run.settings)]
    return list({each.name: each for each in found}.values())


def report_pretraining(config: PretrainingConfig, print_fn: Callable[[str], None]) -> None:
    """Writes the report of a run of pre-training into its folder; never fails."""
    path = os.path.join(config.model_dir, REPORT_FILE)
    _report(path, lambda: read_training_run(config.model_dir), print_fn)


def report_finetuning(config: FinetuningConfig, print_fn: Callable[[str], None]) -> None:
    """Writes the report of a run of fine-tuning into its results; never fails."""
    stem = os.path.join(config.results_dir, config.tasks_label)
    _report(
        f"{stem}_{REPORT_FILE}",
        lambda: read_finetuning_run(f"{stem}{JSON_SUFFIX}"),
        print_fn,
    )


def _report(path: str, read: Callable[[], ReportRun], print_fn: Callable[[str], None]) -> None:
    try:
        run = read()
        write_report(path, [run], references_of([run]))
        print_fn(f"Report:      {path}")
    except Exception as error:  # the run itself has succeeded
        reason = reason_of(error) or type(error).__name__
        print_fn(f"Report:      not written: {reason}")


def _runs_of(path: str) -> list[ReportRun]:
    if os.path.isfile(path):
        return [read_finetuning_run(path)]
    if has_log(path):
        return [read_training_run(path)]
    results = results_files(path)
    if not results:
        raise UserError(f"{path} is not a run: it has neither {LOG_FILE} nor *{JSON_SUFFIX}")
    return [read_finetuning_run(each) for each in results]
