"""Experiment trackers: copies the log to Weights & Biases and MLflow."""

import collections
import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from electra_tf.config.recorded_settings import settings_digest
from electra_tf.config.tracker_fields import MLFLOW, WANDB
from electra_tf.util.console import warn_once
from electra_tf.util.errors import PreemptedError, UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.files import read_json, read_object, to_json, write_atomically

# File with the run id and project of each tracker, for a resumed run; the name of the folder,
# to recognize copies of it; and a digest of the settings.
IDS_FILE = "trackers.json"
PROJECTS, FOLDER, SETTINGS = "projects", "folder", "settings"
# Number of last logging operations that MLflow must confirm at the end.
_MAX_PENDING = 1000
# Characters that MLflow does not allow in names.
_NOT_IN_MLFLOW = re.compile(r"[^\w.:\- ]")


class Tracker(Protocol):
    """A run of a tracker.

    Attributes:
        name: name of its package and of its flag.
    """

    name: str

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Logs finite values of a step."""

    def close(self, error: BaseException | None = None) -> None:
        """Ends the run, with the error that ended it early, if any."""


def check_trackers(projects: Mapping[str, str]) -> None:
    """Checks that the packages of the trackers in use are installed.

    Args:
        projects: project by tracker; see `TrackerFields.trackers`.

    Raises:
        UserError: one is not; the message names the extra.
    """
    for name in projects:
        import_extra(name, name, f"--{name}")


def open_trackers(
    projects: Mapping[str, str],
    *,
    model_dir: str,
    settings: Mapping[str, Any],
    first_step: int = 0,
) -> list[Tracker]:
    """Starts runs, or continues those of a resumed run; without trackers it does nothing.

    If a run starts over with other settings, because it had no checkpoint, it gets new ones.

    Args:
        projects: project of Weights & Biases and experiment of MLflow, if in use; see
            `TrackerFields.trackers`.
        model_dir: folder of the run.
        settings: hyperparameters, logged as the parameters of the runs.
        first_step: global step at the start.

    Raises:
        UserError: a package is not installed, its tracker refuses the run or cannot be
            reached, or a resumed run has logged to another project.
    """
    if not projects:
        return []
    path = os.path.join(model_dir, IDS_FILE)
    ids = read_json(path)
    recorded = read_object(path, PROJECTS)
    digest = settings_digest(settings)
    if not first_step and ids.get(SETTINGS) not in (None, digest):
        ids, recorded = {}, {}
    trackers: list[Tracker] = []
    for name, project in projects.items():
        _check_project(path, name, recorded.get(name), project)
        if name in ids:
            _warn_of_copy(path, name, ids.get(FOLDER), _run_name(model_dir))
        with _naming_flag(name, path if name in ids else None):
            trackers.append(TRACKERS[name](project, model_dir, settings, ids.get(name)))
        ids[name] = trackers[-1].run_id
        recorded[name] = project
    ids |= {FOLDER: _run_name(model_dir), SETTINGS: digest}
    write_atomically(path, to_json({**ids, PROJECTS: recorded}))
    return trackers


def _check_project(path: str, name: str, recorded: str | None, given: str) -> None:
    """Raises UserError if the run to continue is in another project than the given one."""
    if recorded not in (None, given):
        raise UserError(
            f"--{name}={given}: this run logs to {recorded!r}, as {path} records. Pass "
            f"--{name}={recorded} to continue there; to log its remaining steps to a new run "
            f"in {given!r}, remove that file"
        )


def _warn_of_copy(path: str, name: str, recorded: str | None, folder: str) -> None:
    """Warns if a folder, perhaps a copy, continues the run recorded for another folder."""
    if recorded not in (None, folder):
        warn_once(
            f"--{name}: {folder} continues the run of {recorded}, which {path} names. If it is "
            "a copy of that folder, stop and remove the file, so that it gets a run of its own"
        )


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as strings, numbers and booleans, without those that are None."""
    return {
        name: value if isinstance(value, str | int | float) else json.dumps(value)
        for name, value in settings.items()
        if value is not None
    }


class WandbTracker:
    """A run of Weights & Biases, which reads its variables, such as WANDB_MODE=offline.

    Args:
        project: project of the run.
        model_dir: folder of the run, which is named after it.
        settings: hyperparameters.
        run_id: id from an earlier start; None starts a new run.
    """

    name = WANDB

    def __init__(
        self, project: str, model_dir: str, settings: Mapping[str, Any], run_id: str | None
    ) -> None:
        self._run = import_extra("wandb", WANDB, "--wandb").init(
            project=project,
            name=_run_name(model_dir),
            dir=model_dir,
            config=dict(settings),
            id=run_id,
            resume="allow",
            allow_val_change=True,
        )
        self.run_id: str = self._run.id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Logs finite values of a step."""
        self._run.log(dict(values), step=step)

    def close(self, error: BaseException | None = None) -> None:
        """Ends the run, as failed if there was an error."""
        self._run.finish(exit_code=0 if error is None else 1)


class MlflowTracker:
    """A run of MLflow, which reads its variables, such as MLFLOW_TRACKING_URI.

    Args:
        experiment: experiment of the run.
        model_dir, settings, run_id: see `WandbTracker`.
    """

    name = MLFLOW

    def __init__(
        self, experiment: str, model_dir: str, settings: Mapping[str, Any], run_id: str | None
    ) -> None:
        self._client = import_extra("mlflow", MLFLOW, "--mlflow").MlflowClient()
        if run_id is None:
            found = self._client.get_experiment_by_name(experiment)
            experiment_id = (
                self._client.create_experiment(experiment)
                if found is None
                else found.experiment_id
            )
            run = self._client.create_run(experiment_id, run_name=_run_name(model_dir))
            run_id = run.info.run_id
            # Only in a new run: MLflow refuses to change parameters.
            for name, value in plain_settings(settings).items():
                self._client.log_param(run_id, name, value)
        else:
            self._client.update_run(run_id, status="RUNNING")
        self.run_id: str = run_id
        # Last logging operations: MLflow raises their errors only when they are awaited.
        self._pending: collections.deque[Any] = collections.deque(maxlen=_MAX_PENDING)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Logs finite values of a step."""
        for name, value in values.items():
            name = _mlflow_name(name)
            self._pending.append(
                self._client.log_metric(self.run_id, name, value, step=step, synchronous=False)
            )

    def close(self, error: BaseException | None = None) -> None:
        """Ends the run: finished, failed, or killed if it was interrupted."""
        status = "FINISHED" if error is None else "FAILED"
        if isinstance(error, PreemptedError | KeyboardInterrupt):
            status = "KILLED"
        try:
            for operation in self._pending:
                operation.wait()  # raises what MLflow has only written to its own log
        except Exception as failure:
            warn_once(f"--{self.name}: some values are not logged: {failure}")
        self._client.set_terminated(self.run_id, status=status)


# Tracker classes: (project, model_dir, settings, run_id) starts or continues a run.
TRACKERS = {WANDB: WandbTracker, MLFLOW: MlflowTracker}


def log_to(trackers: list[Tracker], step: int, values: Mapping[str, float]) -> None:
    """Logs values; warns once of a tracker that fails, and training continues."""
    for tracker in trackers:
        try:
            tracker.log(step, values)
        except Exception as error:  # any error of its server or network
            warn_once(f"--{tracker.name}: some values are not logged: {error}")


def close_trackers(trackers: list[Tracker], error: BaseException | None = None) -> None:
    """Ends the runs; warns of a tracker that fails, and closes the others.

    Args:
        trackers: trackers of the run.
        error: error that ended the run early; None if it finished.
    """
    for tracker in trackers:
        try:
            tracker.close(error)
        except Exception as failure:
            warn_once(f"--{tracker.name}: the run could not be ended: {failure}")


@contextlib.contextmanager
def _naming_flag(name: str, resumed_by: str | None) -> Iterator[None]:
    """Turns errors of a package into a UserError, before training.

    Args:
        name: name of the package and of its flag.
        resumed_by: file that has the id of the run to continue; None for a new run.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if resumed_by is None:
            raise UserError(f"--{name} cannot start a run: {error}") from error
        raise UserError(
            f"--{name} cannot continue the run that {resumed_by} names: {error}. To start a "
            f"new one, remove {name!r} from that file"
        ) from error


def _mlflow_name(name: str) -> str:
    """Returns the name of a metric for MLflow.

    Only the kind is a folder: MLflow may store metrics as files, and `gradient_norm` cannot be
    a file beside `gradient_norm/electra/layer_0`.
    """
    kind, slash, rest = name.partition("/")
    return kind + slash + _NOT_IN_MLFLOW.sub("_", rest.replace("/", "."))


def _run_name(model_dir: str) -> str:
    return os.path.basename(os.path.normpath(model_dir))
