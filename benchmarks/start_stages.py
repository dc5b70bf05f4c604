"""Times one start of training in a new process; defines no flags: tests import it."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.side_by_side import NO_GPU
from electra_tf.util.errors import UserError

STAGES = ("import", "build", "first step", "second step")
HERE = pathlib.Path(__file__).parents[1]
# Runs in either checkout, on what both have.
_START = """
import json, sys, time
begin = time.perf_counter()
from electra_tf.util.tensorflow_import import import_tensorflow
import_tensorflow()
from benchmarks.random_run import create_run
from electra_tf.config.pretraining import PretrainingConfig
marks = [begin, time.perf_counter()]
run = create_run(PretrainingConfig.create(**json.loads(sys.argv[1])))
marks.append(time.perf_counter())
for _ in range(2):
    run.steps.run(run.iterator, 1)
    marks.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""


def time_start(checkout: pathlib.Path, settings: Mapping[str, object]) -> list[float]:
    """Returns the seconds of each of `STAGES` in a new process.

    Raises:
        UserError: the process failed.
    """
    result = subprocess.run(
        [sys.executable, "-c", _START, json.dumps(settings)],
        cwd=checkout,
        env={**os.environ, **NO_GPU, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise UserError(f"A start in {checkout} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.splitlines()[-1])
