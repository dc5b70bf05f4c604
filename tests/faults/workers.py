"""One of two or three workers is killed, stopped or delayed, or has other settings.

`python -m tests.faults.workers FIGURES --seed 1` tries each once, on this machine. Survivors
must end with the status of a lost worker, and a restart must train what unhindered workers do.
"""

import argparse
import json
import pathlib
import random
import signal
import sys
import tempfile
import time
from typing import Any

from tests.faults.kill_cases import pretraining_settings, write_data
from tests.faults.run_comparison import compare
from tests.faults.starts import Server
from tests.processes import Program, finish, start_workers, wait_until

PROGRAM = "run_pretraining.py"
# Of several devices; see tests/faults/kill_cases.py.
_TOLERANCE = 1e-6
LOST_STATUS = 43
# How long a survivor may take; TensorFlow notices a silent worker by its heartbeat.
LIMIT_SECONDS = 300.0
_STEPS = 30
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FAULTS = ("kill", "stop", "delay", "other settings")
# After which the other workers end, here and in tests/faults/partition.py.
LOSING = ("kill", "stop", "cut")


class Trials:
    """Trials in folders of their own, compared with an unhindered run."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._server = Server()
        self._data = folder / "data"
        self._data.mkdir()
        self._server.call(write_data, str(self._data))
        self.figures: dict[str, Any] = {"trials": [], "violations": []}

    def settings(self, place: pathlib.Path, count: int) -> dict[str, Any]:
        """Returns the hyperparameters of a run."""
        settings = pretraining_settings(objective="mlm", num_train_steps=_STEPS)
        shape = {**settings["model_hparam_overrides"], **_NO_DROPOUT}
        settings |= {"model_hparam_overrides": shape, "train_batch_size": 4 * count}
        text = json.dumps(settings).replace("{data}", str(self._data))
        return json.loads(text.replace("{run}", str(place)))

    def run(self, fault: str, count: int) -> None:
        """Tries one fault on one worker, drawn at random."""
        generator = random.Random(f"{self._seed} {fault} {count}")
        place = self._folder / f"{fault} {count}"
        settings = self.settings(place, count)
        victim = generator.randrange(count)
        if fault == "other settings":
            workers = start_workers(PROGRAM, settings, count, {victim: {"learning_rate": 0.5}})
            statuses = [end[0] for end in finish(workers)]
            problems = [] if statuses == [1] * count else [f"statuses {statuses}"]
            problems += ["something was written"] if (place / "model").exists() else []
            self._note(fault, count, victim, 0.0, problems)
            return
        workers = self.start(settings, count)
        saved = 2 * generator.randint(1, 3)
        wait_until((place / f"model/ckpt-{saved}.index").exists, workers)
        start = time.monotonic()
        problems = self.strike(fault, workers, victim, generator)
        seconds = time.monotonic() - start
        if not problems:
            if fault in LOSING:
                problems += self._restart(settings, count)
            expected = self._unhindered(count)
            problems += self._server.call(compare, expected, place, _TOLERANCE)
        self._note(fault, count, victim, seconds, problems)

    def start(self, settings: dict[str, Any], count: int) -> list[Program]:
        """Starts all workers."""
        return start_workers(PROGRAM, settings, count)

    def strike(
        self,
        fault: str,
        workers: list[Program],
        victim: int,
        generator: random.Random,
    ) -> list[str]:
        """Strikes a worker, waits for the others, and says what they did wrong."""
        workers[victim].send_signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        if fault == "delay":
            time.sleep(generator.uniform(2, 5))
            workers[victim].send_signal(signal.SIGCONT)
        waiting = workers if fault == "delay" else [w for w in workers if w != workers[victim]]
        return wait_for(waiting, workers, LOST_STATUS if fault in LOSING else 0)

    def _restart(self, settings: dict[str, Any], count: int) -> list[str]:
        ends = finish(self.start(settings, count))
        failed = [end for end in ends if end[0]]
        return [f"restarted: status {end[0]}: {end[2][-300:]}" for end in failed]

    def _unhindered(self, count: int) -> pathlib.Path:
        place = self._folder / f"unhindered {count}"
        if not place.exists():
            ends = finish(self.start(self.settings(place, count), count))
            assert not any(end[0] for end in ends), ends
        return place

    def _note(
        self, fault: str, count: int, victim: int, seconds: float, problems: list[str]
    ) -> None:
        trial = {"fault": fault, "workers": count, "worker": victim, "seconds": seconds}
        self.figures["trials"].append(trial | {"seconds": round(seconds, 1)})
        where = f"{fault} of worker {victim} of {count}, seed {self._seed}"
        self.figures["violations"] += [f"{where}: {problem}" for problem in problems]
        print(f"{where}: {seconds:.1f} s, {problems or 'as promised'}", flush=True)


def wait_for(waiting: list[Program], workers: list[Program], status: int) -> list[str]:
    """Waits for some of the workers and ends all; says if some had another exit status."""
    end = time.monotonic() + LIMIT_SECONDS
    while any(w.poll() is None for w in waiting) and time.monotonic() < end:
        time.sleep(0.1)
    statuses = [worker.poll() for worker in waiting]
    for worker in workers:
        worker.kill()
    outputs = [worker.communicate()[1][-300:] for worker in workers]
    if statuses == [status] * len(waiting):
        return []
    return [f"statuses of the survivors {statuses}, expected {status}: {outputs}"]


def main() -> None:
    """Reads the flags; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--fault", choices=FAULTS, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(pathlib.Path(folder).resolve(), options.seed)
        for count in options.workers or (2, 3):
            for fault in options.fault or FAULTS:
                trials.run(fault, count)
                options.figures.write_text(json.dumps(trials.figures, indent=2) + "\n")
    sys.exit(bool(trials.figures["violations"]))


if __name__ == "__main__":
    main()
