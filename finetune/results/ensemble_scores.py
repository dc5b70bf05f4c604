"""The scores of an ensemble of trials, saved next to the results of the trials."""

import dataclasses
import os
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically

_SUFFIX = "_ensemble.json"


@dataclasses.dataclass(frozen=True)
class EnsembleScores:
    """Contents of a `*_ensemble.json`.

    Attributes:
        trials: numbers of the averaged trials.
        metrics: metrics by task and split, such as "cola/dev"; None if undefined.
        main: name of the main metric by task and split.
    """

    trials: list[int]
    metrics: Mapping[str, Mapping[str, float | None]]
    main: Mapping[str, str]

    def write(self, path: str) -> None:
        """Writes the file."""
        write_atomically(path, to_json(dataclasses.asdict(self)))


def ensemble_file(results_dir: str | os.PathLike, tasks_label: str) -> str:
    """Returns the path of the scores of the ensemble."""
    return os.path.join(results_dir, f"{tasks_label}{_SUFFIX}")


def read_ensemble(path: str) -> EnsembleScores | None:
    """Reads a `*_ensemble.json`; None if there is no such file.

    Raises:
        UserError: it is damaged.
    """
    if not os.path.exists(path):
        return None
    content = read_json(path)
    try:
        scores = EnsembleScores(**content)
        is_whole = all(type(number) is int for number in scores.trials) and all(
            value is None or type(value) in (int, float)
            for metrics in scores.metrics.values()
            for value in metrics.values()
        )
    except (AttributeError, TypeError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{path} has no scores of an ensemble of run_finetuning.py")
    return scores
