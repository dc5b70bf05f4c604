"""Seconds from the start of the program to the end of the first training step.

    python -m benchmarks.first_step --other_checkout ../before --rounds 3

Every start is a new process. With `--other_checkout`, those of the two versions take turns.
"""

import pathlib
import statistics

from absl import app, flags

from benchmarks.side_by_side import describe_machine
from benchmarks.start_stages import HERE, STAGES, time_start
from electra_tf.util.console import markdown_table

_SIZE = flags.DEFINE_enum("model_size", "small", ["small", "base"], "Size of the model.")
_SEQ_LENGTH = flags.DEFINE_integer("seq_length", 128, "Tokens per row.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Rows per step.")
_PRECISION = flags.DEFINE_string("precision", "float32", "As in pre-training.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Starts of each version.", lower_bound=1)
_OTHER = flags.DEFINE_string("other_checkout", None, "Folder of another version, if any.")


def main(_: list[str]) -> None:
    """Prints a table of the medians."""
    settings = {
        "data_dir": "unused",
        "model_name": "first_step",
        "model_dir": "unused",
        "model_size": _SIZE.value,
        "max_seq_length": _SEQ_LENGTH.value,
        "train_batch_size": _BATCH_SIZE.value,
        "precision": _PRECISION.value,
        "num_train_steps": 100,
    }
    checkouts = {"this version": HERE}
    if _OTHER.value:
        checkouts["the other"] = pathlib.Path(_OTHER.value)
    seconds: dict[str, list[list[float]]] = {name: [] for name in checkouts}
    for _ in range(_ROUNDS.value):
        for name, checkout in checkouts.items():
            seconds[name].append(time_start(checkout, settings))
    rows = [
        [
            name,
            *(f"{statistics.median(stage):.1f}" for stage in zip(*starts, strict=True)),
            f"{statistics.median(sum(start[:3]) for start in starts):.1f}",
        ]
        for name, starts in seconds.items()
    ]
    print(describe_machine(None))
    header = ["seconds", *STAGES, "to the end of the first step"]
    print(markdown_table(header, rows, text_columns=1))


if __name__ == "__main__":
    app.run(main)
