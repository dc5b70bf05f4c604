"""Trains in a process of its own: what XLA compiles stays in memory until the process ends.

    python -m tests.training_process

Each line of standard input is a configuration as JSON; a line is printed when its training is
done.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.console import discard
from electra_tf.util.tensorflow_import import import_tensorflow
from tests.processes import ROOT

DONE = "done"


class TrainingProcess:
    """Trains configurations one after another in another process; a context manager."""

    def __enter__(self) -> "TrainingProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.training_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @contextlib.contextmanager
    def training(self, config: PretrainingConfig) -> Iterator[None]:
        """Trains while the block runs, and waits for the end; an error is on standard error."""
        line = json.dumps(dataclasses.asdict(config))
        print(line, file=self._process.stdin, flush=True)
        try:
            yield
        finally:  # or the next training would get this answer
            answer = self._process.stdout.readline().strip()
        assert answer == DONE, "the training failed"


def main() -> None:
    """Serves standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print
    import_tensorflow()
    from tests import pretraining_runs

    for line in sys.stdin:
        pretraining_runs.train(PretrainingConfig(**json.loads(line)), discard)
        print(DONE, file=answers, flush=True)


if __name__ == "__main__":
    main()
