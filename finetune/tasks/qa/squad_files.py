"""Writes predictions in the file formats of SQuAD's tools."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.console import warn_once
from electra_tf.util.files import remove_files, write_atomically


def write_squad_outputs(
    directory: str, task_name: str, predictions: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Writes predictions in the formats of SQuAD's tools, and returns the paths.

    - `<task>_preds.json`: id to the best answer that is not empty. The official evaluation
      of SQuAD 2.0 reads it together with the null odds (`--na-prob-file`).
    - `<task>_nbest.json`: id to the list of text, probability, start_logit, end_logit.
    - where questions may have no answer, `<task>_null_odds.json`: id to the null odds, and
      `<task>_submission.json`: id to the answer, empty above the threshold. Otherwise,
      such files of an earlier run are removed.

    Args:
        directory: existing folder.
        task_name: first part of the file names.
        predictions: result of `QATask.predictions`. If several have the same id, only the last
            one is written, with a warning.
    """
    if repeated := len(predictions) - len({p["id"] for p in predictions}):
        path = os.path.join(directory, f"{task_name}_preds.json")
        warn_once(
            f"{path} has no answer to {repeated:,} of {len(predictions):,} questions, because "
            "later questions have the same ids"
        )

    def best(prediction: Mapping[str, Any]) -> str:
        return next((entry["text"] for entry in prediction["nbest"] if entry["text"]), "")

    contents = {
        "preds": {p["id"]: best(p) for p in predictions},
        "nbest": {p["id"]: p["nbest"] for p in predictions},
    }
    if any(p["null_odds"] is not None for p in predictions):
        contents["null_odds"] = {p["id"]: p["null_odds"] for p in predictions}
        contents["submission"] = {p["id"]: p["answer"] for p in predictions}
    paths = []
    for kind, content in contents.items():
        paths.append(os.path.join(directory, f"{task_name}_{kind}.json"))
        write_atomically(paths[-1], json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    others = [kind for kind in ("null_odds", "submission") if kind not in contents]
    remove_files(*(os.path.join(directory, f"{task_name}_{kind}.json") for kind in others))
    return paths
