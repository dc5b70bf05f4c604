"""A long training of a tiny model: what grows with its steps?

`python -m tests.faults.long_run FIGURES --steps 50000` trains through the program's own loop,
with a log line, an evaluation and a checkpoint every so many steps, and watches the process.
`--steps 1000000` is the long version; `--compiled`, the whole step by XLA and on one thread,
takes a third of its time.
"""

import argparse
import json
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from electra_tf.util.files import write_atomically
from tests.conftest import resident_bytes

# Compilation, allocation and the first evaluations, which the slopes leave out.
_WARM_UP = 0.2
_LOG_STEPS = 250
_BLOCKS = 20


class Sample(NamedTuple):
    """What a process has at a step, and the CPU time of the steps before it, each."""

    step: int
    memory_mb: float
    files: int
    threads: int
    step_cpu_ms: float


def slope(steps: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Returns the least-squares slope per million steps, and half of its 95 % interval.

    Neighboring samples are alike, so each of `_BLOCKS` counts as one.
    """
    import numpy as np
    from scipy import stats

    count = min(_BLOCKS, len(values))
    parts = [np.array_split(each, count) for each in (steps, values)]
    x, y = ([*map(np.mean, each)] for each in parts)
    if np.ptp(y) == 0:
        return 0.0, 0.0
    fit = stats.linregress(np.array(x) / 1e6, y)
    half = float(fit.stderr * stats.t.ppf(0.975, len(x) - 2))
    return float(fit.slope), half


class Tail:
    """The lines that another thread adds to a file, once they are complete."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._position = 0

    def lines(self) -> list[str]:
        """Returns the new lines; none if there is no file yet."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            *lines, rest = file.read().split(b"\n")
            self._position = file.tell() - len(rest)
        return [line.decode() for line in lines]


def watch(
    num_steps: int,
    folder: pathlib.Path,
    log_steps: int = _LOG_STEPS,
    note: Callable[[Sequence[Sample]], None] | None = None,
    is_compiled: bool = False,
) -> list[Sample]:
    """Trains in this process; returns a sample of each line of the log.

    Args:
        num_steps: how long.
        folder: of the data and the model.
        log_steps: steps between two lines of the log.
        note: gets the samples so far, every so often: a soak may end before the run.
        is_compiled: XLA compiles the whole step, as by `--jit_compile`.
    """
    from electra_tf.config.pretraining import PretrainingConfig
    from electra_tf.util.console import discard
    from tests import pretraining_runs
    from tests.conftest import tiny_settings, write_tiny_data

    data = folder / "data"
    data.mkdir()
    write_tiny_data(data)
    tiny = tiny_settings(data, folder)
    shape = {**tiny["model_hparam_overrides"], "num_hidden_layers": 1}
    settings = tiny | {
        "model_hparam_overrides": shape,
        "generator_layers": 1.0,
        "num_train_steps": num_steps,
        "iterations_per_loop": log_steps,
        "log_steps": log_steps,
        "save_checkpoints_steps": 4 * log_steps,
        "eval_tfrecords": str(data / "pretrain_tfrecords/*"),
        "num_eval_steps": 2,
        "keep_checkpoint_max": 2,
        "jit_compile": is_compiled,
    }
    log = folder / "model/train_log.jsonl"
    samples: list[Sample] = []
    done = threading.Event()

    def look() -> None:
        tail, before = Tail(log), (0, time.process_time())
        while not done.wait(0.02):
            for line in tail.lines():
                record = json.loads(line)
                if record["kind"] != "train":
                    continue
                now = (record["step"], time.process_time())
                samples.append(_sample(now[0], (now[1] - before[1]) / (now[0] - before[0])))
                before = now
                if note and len(samples) % _BLOCKS == 0:
                    note(samples)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        pretraining_runs.train(PretrainingConfig.create(**settings), discard)
    finally:
        time.sleep(0.2)
        done.set()
        watcher.join()
    if not samples or samples[-1].step != num_steps:
        raise RuntimeError(f"Watched {samples[-1:]} of {num_steps} steps")
    return samples


def _sample(step: int, seconds: float) -> Sample:
    return Sample(
        step,
        (resident_bytes() or 0) / 1e6,
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        1e3 * seconds,
    )


def figures_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """Returns first and last value, slope and interval of each measure after the warm-up."""
    kept = samples[int(_WARM_UP * len(samples)) :]
    steps = [sample.step for sample in kept]
    measures = {}
    for name in Sample._fields[1:]:
        values = [getattr(sample, name) for sample in kept]
        per_million, half = slope(steps, values)
        measures[name] = {
            "first": round(values[0], 3),
            "last": round(values[-1], 3),
            "per_million_steps": round(per_million, 3),
            "half_interval": round(half, 3),
        }
    return {"steps": samples[-1].step, "samples": len(kept), "measures": measures}


def _use_one_thread() -> None:
    """Lets operations wait for nobody: those of a tiny model take less than a hand-over."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def main() -> None:
    """Reads the flags, trains and writes the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    if options.compiled:
        _use_one_thread()

    def note(samples: Sequence[Sample]) -> None:
        figures = figures_of(samples) | {"compiled": options.compiled}
        figures["series"] = [list(sample) for sample in samples]
        write_atomically(options.figures, f"{json.dumps(figures)}\n")

    with tempfile.TemporaryDirectory() as folder:
        samples = watch(
            options.steps, pathlib.Path(folder), note=note, is_compiled=options.compiled
        )
    note(samples)
    figures = figures_of(samples)
    for name, measure in figures["measures"].items():
        print(name, measure)


if __name__ == "__main__":
    main()
