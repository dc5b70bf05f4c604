"""Reference curves: logs of measured runs of the recipes, to compare other runs with."""

import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.report.runs import ReportRun
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json

# Names of the content of a file.
NAME, SOURCE, SETTINGS, RECORDS = "name", "source", "settings", "records"


def find_references(folder: pathlib.Path, settings: Mapping[str, Any]) -> list[ReportRun]:
    """Returns the reference runs whose settings a run has.

    The settings of a reference are those of its recipe that influence the training; the others
    of the run, and its data, may differ.

    Args:
        folder: of `*.json` files with `NAME`, `SOURCE`, `SETTINGS` and `RECORDS`.
        settings: hyperparameters of the run.

    Raises:
        UserError: a file is not a reference curve.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        content = read_json(str(path))
        if missing := {NAME, SOURCE, SETTINGS, RECORDS} - content.keys():
            raise UserError(f"{path} is not a reference curve: it has no {min(missing)}")
        if all(settings.get(name) == value for name, value in content[SETTINGS].items()):
            name = f"reference: {content[NAME]}"
            notes = (f"{name}: {content[SOURCE]}",)
            found.append(ReportRun(name=name, logs={"": content[RECORDS]}, notes=notes))
    return found
