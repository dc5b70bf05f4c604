"""The worst errors of a trial on a split, with their text, as a JSON file."""

import heapq
import os
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically

ERRORS_SUFFIX = "_errors.json"
MAX_ERRORS = 20
# Maximum number of characters to keep of a text.
_MAX_TEXT = 1000


class PredictionError(NamedTuple):
    """A wrong prediction.

    Attributes:
        text: input of the model, such as a question.
        gold, predicted: labels, tags or answers, as text.
        loss: loss of the example, in nats if it is a negative log-likelihood.
    """

    text: str
    gold: str
    predicted: str
    loss: float


def write_errors(path: str | os.PathLike, errors: Sequence[PredictionError]) -> None:
    """Writes the `MAX_ERRORS` errors with the highest loss, and the number of all errors."""
    worst = heapq.nlargest(MAX_ERRORS, errors, key=lambda error: error.loss)
    rows = [error._replace(text=error.text[:_MAX_TEXT])._asdict() for error in worst]
    write_atomically(path, to_json({"total": len(errors), "errors": rows}))


def read_errors(path: str | os.PathLike) -> tuple[int, list[PredictionError]]:
    """Returns the number of all errors, and the worst ones.

    Raises:
        UserError: the file is not one that `write_errors` wrote.
    """
    content = read_json(os.fspath(path))
    try:
        errors = [PredictionError(**each) for each in content["errors"]]
        for *texts, loss in errors:
            if not all(isinstance(text, str) for text in texts) or not isinstance(
                loss, int | float
            ):
                raise TypeError
        return int(content["total"]), errors
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a file of errors of run_finetuning.py") from error
