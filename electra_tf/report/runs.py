"""What a report shows of a run, and the reader of folders with a training log."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.saved_config import load_saved_config
from electra_tf.training.monitoring.diagnoses import RunFacts
from electra_tf.training.monitoring.health import diagnose, facts_of, is_judged
from electra_tf.training.monitoring.run_info import (
    DATA_STATISTICS,
    ENVIRONMENT,
    LOG_FILE,
    read_log,
    read_run_info,
    read_sentences,
)
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of text; `rows` have a cell for each column of `header`."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Counts [gold, predicted] over `labels`."""

    title: str
    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportRun:
    """What a report shows of one run.

    Attributes:
        name: name of the run.
        logs: records of each training log by its label, such as "trial 1, fold 2"; "" if there
            is only one.
        settings: hyperparameters.
        environment: what it ran on.
        health: what is wrong with it, one line each.
        unjudged: labels of logs with too few records for most diagnoses.
        tables: scores.
        confusions: confusion matrices.
        errors: worst errors, with the text first.
        notes: what is missing, one line each.
        sentences: held-out sentences of each evaluation; see `read_sentences`.
    """

    name: str
    logs: Mapping[str, Sequence[Mapping[str, Any]]]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    health: Sequence[str] = ()
    unjudged: Sequence[str] = ()
    tables: Sequence[Table] = ()
    confusions: Sequence[Confusion] = ()
    errors: Sequence[Table] = ()
    notes: Sequence[str] = ()
    sentences: Sequence[Mapping[str, Any]] = ()


def has_log(folder: str | os.PathLike) -> bool:
    """Returns whether a folder has a training log."""
    return os.path.isfile(os.path.join(folder, LOG_FILE))


def read_training_run(folder: str | os.PathLike) -> ReportRun:
    """Reads a folder of checkpoints: pre-training, or one trial of fine-tuning.

    Raises:
        UserError: it has no log, or a file of it is damaged.
    """
    path = os.path.join(folder, LOG_FILE)
    if not has_log(folder):
        raise UserError(f"{folder} is not a run: it has no {LOG_FILE}")
    records = read_log(path)
    settings = settings_of(folder)
    return ReportRun(
        name=pathlib.Path(os.path.abspath(folder)).name,
        logs={"": records},
        settings=settings,
        environment=environment_of(folder),
        health=health_of(folder, records, settings),
        unjudged=[] if is_judged(records, facts_of_run(folder, records, settings)) else [""],
        sentences=read_sentences(folder),
    )


def settings_of(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the hyperparameters of a folder; empty if it does not record them."""
    saved = load_saved_config(folder)
    return {} if saved is None else saved.hyperparameters


def environment_of(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns what the run of a folder ran on; empty if it does not record it."""
    return read_run_info(folder).get(ENVIRONMENT, {})


def health_of(
    folder: str | os.PathLike,
    records: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> list[str]:
    """Returns a line for everything that is wrong with the run of a folder."""
    return [each.line() for each in diagnose(records, facts_of_run(folder, records, settings))]


def facts_of_run(
    folder: str | os.PathLike,
    records: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> RunFacts:
    """Returns what the diagnoses need to know about the run of a folder."""
    last = max((record["step"] for record in records), default=0)
    steps = None if settings.get("num_train_steps") else last
    data = read_run_info(folder).get(DATA_STATISTICS, {})
    return facts_of(settings, num_train_steps=steps, **data)
