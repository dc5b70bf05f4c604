"""`config.json` beside a run's checkpoints: its hyperparameters and variable shapes.

No TensorFlow is imported here: flags are checked against it before anything slow happens.
"""

import json
import os
import pathlib
from typing import Any, NamedTuple

from electra_tf.util.errors import UserError

CONFIG_FILE = "config.json"


class SavedConfig(NamedTuple):
    """`hyperparameters` by name, and the shape of each variable by path."""

    hyperparameters: dict[str, Any]
    variables: dict[str, list[int]]


def load_saved_config(directory: str | os.PathLike) -> SavedConfig | None:
    """Reads the `config.json` of a folder; returns None if there is none.

    Raises:
        UserError: the file does not describe a run.
    """
    path = os.path.join(directory, CONFIG_FILE)
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        return SavedConfig(dict(content["hyperparameters"]), dict(content["variables"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} does not describe a run: {error!r}") from error
