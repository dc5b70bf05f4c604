"""The result of a pre-training run and of what was fine-tuned from it: one committed file."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically

FINETUNING, PROBE = "finetuning", "probe"
KINDS = (FINETUNING, PROBE)
# Settings that do not change what is learned, but where it is learned.
_NOT_COMPARED = ("eval_batch_size",)
_FLAGS = "finetuning_flags"


@dataclasses.dataclass
class Result:
    """What is known of a run so far.

    Attributes:
        settings: hyperparameters of the pre-training; for random weights, the shape.
        finetuning_flags: of run_finetuning.py, in all tasks.
        model_flops, paper_flops: of the pre-training: of matrix products, and in the paper's
            counting.
        pretraining: wall time of training in `seconds`, `metrics` on held-out text at the end,
            `curve`, the same metrics by step, and `unigram_accuracy`, that of the most
            frequent token; empty before it has ended.
        scores: by kind (`KINDS`), then task: main metric on the reported split, one number a
            fine-tuning seed; a probe has one.
        seconds: wall time of fine-tuning and probes, by "kind/task".
        machine: on which it was made.
    """

    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    finetuning_flags: list[str] = dataclasses.field(default_factory=list)
    model_flops: float = 0.0
    paper_flops: float = 0.0
    pretraining: dict[str, Any] = dataclasses.field(default_factory=dict)
    scores: dict[str, dict[str, list[float]]] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    machine: str = ""

    def metric(self, name: str) -> float | None:
        """Returns a metric of the held-out text at the end of pre-training, if it is there."""
        return self.pretraining.get("metrics", {}).get(name)

    def has(self, kind: str, task: str) -> bool:
        """Whether a task was fine-tuned or probed."""
        return task in self.scores.get(kind, {})


def read_result(
    path: pathlib.Path, settings: Mapping[str, Any], finetuning_flags: Sequence[str]
) -> Result | None:
    """Returns the result in a file, None if there is none.

    Args:
        path: of the file.
        settings: that the run has now.
        finetuning_flags: that its fine-tunings have now.

    Raises:
        UserError: the file is no result, or of other settings.
    """
    if not path.exists():
        return None
    try:
        result = Result(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is no result of the study: {error}") from error
    old = {**result.settings, _FLAGS: result.finetuning_flags}
    new = {**settings, _FLAGS: list(finetuning_flags)}
    for name in sorted({*old, *new}.difference(_NOT_COMPARED)):
        there, now = old.get(name), new.get(name)
        if there != now:
            raise UserError(
                f"{path} is of other settings: there {name} is {there}, and now {now}. Remove "
                "it and the model's folder to run it again, or choose another --report_dir"
            )
    return result


def write_result(path: pathlib.Path, result: Result) -> None:
    """Writes a result; the file is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = rounded(dataclasses.asdict(result))
    write_atomically(str(path), json.dumps(content, indent=1, allow_nan=False) + "\n")


def rounded(value: Any) -> Any:
    """Returns JSON values as a file has them: with six digits, and null if not finite."""
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
