r"""Makes the reference curve of a recipe from a run of it, for reports.

    python -m benchmarks.reference_curve --run my_data/models/quickstart \
        --recipe recipes/quickstart.flags --output recipes/reference/quickstart.json \
        --source "demo/corpus, evaluated on demo/corpus_heldout; two CPU cores"

Kept are the metrics of the log, without rates and values by layer, and the settings of the
recipe that influence the training. Reports show the curve beside runs with these settings.
"""

import os
import pathlib

from absl import flags

from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.recorded_settings import influences
from electra_tf.report.reference import NAME, RECORDS, SETTINGS, SOURCE
from electra_tf.report.runs import read_training_run
from electra_tf.training.monitoring.run_info import RATES
from electra_tf.util.files import read_lines, to_json, write_atomically
from flags.command_line import program

_RUN = flags.DEFINE_string("run", None, "Folder of the run.", required=True)
_RECIPE = flags.DEFINE_string("recipe", None, "Flag file of the recipe.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "File to write.", required=True)
_SOURCE = flags.DEFINE_string("source", None, "Data and hardware of the run.", required=True)

_DIGITS = 5


def main() -> None:
    """Writes the file."""
    run = read_training_run(_RUN.value)
    content = {
        NAME: pathlib.Path(_RECIPE.value).stem,
        SOURCE: _SOURCE.value,
        SETTINGS: {name: run.settings[name] for name in recipe_settings(_RECIPE.value)},
        RECORDS: [shorten(record) for record in run.logs[""]],
    }
    write_atomically(_OUTPUT.value, to_json(content))
    print(f"Reference: {os.path.abspath(_OUTPUT.value)}")


def recipe_settings(path: str) -> list[str]:
    """Returns the names of the flags of a recipe that influence the training."""
    lines = [line for line in read_lines(path) if line.startswith("--")]
    names = [line.removeprefix("--").partition("=")[0] for line in lines]
    by_name = influences(PretrainingConfig)
    return [name for name in names if by_name.get(name, TRAINING) == TRAINING]


def shorten(record: dict) -> dict:
    """Returns a record with its metrics, rounded."""
    return {
        name: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        for name, value in record.items()
        if name not in RATES and "/" not in name
    }


if __name__ == "__main__":
    program.run(main)
