"""Serving under load: valid, malformed, oversized and slow requests, by many clients at once.

`python -m tests.faults.serving FIGURES --minutes 10` sends requests to `serve_demo.py` for a
half of the time, and calls SavedModels in this process for the other half. Each valid answer
must be that of a single quiet request.
"""

import argparse
import array
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.faults import serving_requests
from tests.faults.long_run import slope
from tests.faults.serving_requests import KINDS, MAX_CHARACTERS, Outcome, difference
from tests.processes import ROOT

CLIENTS = 32
_NUM_TEXTS = 24
_MAX_PROBLEMS = 20
# The memory of the first fifth is that of caches and of the heap's first growth.
_WARM_UP = 0.2
_SAMPLE_SECONDS = 0.25
# What memory that is not flat is: more megabytes in a million requests than this, for sure.
MEMORY_LIMIT_MB = 200.0
_MIN_SECONDS_OF_SLOPE = 60.0
REQUEST_SECONDS = 2.0
Send = Callable[[random.Random], Outcome]


def load(send: Send, seconds: float, clients: int, seed: int, pid: int) -> dict[str, Any]:
    """Sends requests by many clients at once; returns counts, latencies, memory and problems.

    Args:
        send: sends one request.
        seconds: how long.
        clients: how many threads send.
        seed: of the requests.
        pid: process whose memory is watched.
    """
    end = time.monotonic() + seconds
    tally = _Tally()
    samples: list[tuple[int, float]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            samples.append((tally.requests.total(), resident_mb(pid)))

    def client(number: int) -> None:
        generator = random.Random(f"{seed} {number}")
        while time.monotonic() < end:
            tally.add(send(generator))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            for future in [pool.submit(client, number) for number in range(clients)]:
                future.result()
    finally:
        done.set()
        watcher.join()
    return _figures(tally, samples, clients, seconds)


def resident_mb(pid: int) -> float:
    """Returns the memory of a process."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def page_sender(port: int) -> Send:
    """Returns what sends a request to the page's server, drawn at random."""
    expected = serving_requests.quiet_answers(port, _NUM_TEXTS)
    shares = [share for share, _ in KINDS]

    def send(generator: random.Random) -> Outcome:
        ((_, kind),) = generator.choices(KINDS, shares)
        return kind(port, expected, generator)

    return send


def model_sender(folder: pathlib.Path) -> Send:
    """Returns what calls the SavedModels of a folder of exports in this process."""
    from electra_tf.inference.web_demo.models import ExportedModel
    from tests.electra_tf.inference.web_demo.exports import COMPONENTS

    models = [ExportedModel(folder / name, name) for name in COMPONENTS]
    given = serving_requests.texts(_NUM_TEXTS)
    given += ["w1 " * 10_000, "x" * 100_000]
    cases = [(model, text) for model in models for text in given]
    expected = [_plain(model.answer(text=text)) for model, text in cases]

    malformed: list[dict[str, Any]] = [
        {},
        {"texts": "w1"},
        {"text": 1},
        {"text": ["w1", "w2"]},
    ]

    def send(generator: random.Random) -> Outcome:
        start = time.monotonic()
        number = generator.randrange(len(cases))
        model, text = cases[number]
        if generator.random() < 0.2:
            try:
                model.answer(**generator.choice(malformed))
                problem: str | None = "a malformed call was answered"
            except Exception:
                problem = None
            return Outcome("malformed", None, time.monotonic() - start, problem)
        answer = model.answer(text=text)
        seconds = time.monotonic() - start
        kind = "oversized" if len(text) > MAX_CHARACTERS else "valid"
        return Outcome(kind, 200, seconds, difference(expected[number], _plain(answer)))

    return send


@contextmanager
def serve(folder: pathlib.Path) -> Iterator[tuple[int, int]]:
    """Starts `serve_demo.py` over the exports of a folder; yields its port and process."""
    flags = [f"--discriminator={folder}/discriminator", f"--generator={folder}/generator"]
    flags += [f"--tasks={folder}/topic", "--port=0", f"--max_characters={MAX_CHARACTERS}"]
    flags += [f"--request_seconds={REQUEST_SECONDS}"]
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "serve_demo.py", *flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        line = process.stdout.readline()
        found = re.search(r"Serving: http://127\.0\.0\.1:(\d+)/", line)
        if not found:
            raise RuntimeError(f"{line}{(folder / 'errors').read_text()[-2000:]}")
        yield int(found[1]), process.pid
    finally:
        process.kill()
        process.wait()


def soak_page(folder: pathlib.Path, seconds: float, clients: int, seed: int) -> dict[str, Any]:
    """Loads the page's server; its threads and open files must be as before."""
    with serve(folder) as (port, pid):
        send = page_sender(port)
        before = _open(pid)
        figures = load(send, seconds, clients, seed, pid)
        deadline = time.monotonic() + 2 * REQUEST_SECONDS
        while (after := _open(pid))[0] > before[0] and time.monotonic() < deadline:
            time.sleep(0.1)
        if after[0] > before[0]:
            figures["violations"].append(f"open files: {before[0]} before, {after[0]} after")
        figures |= {"files": after[0], "threads": [before[1], after[1]]}
        errors = (folder / "errors").read_text()
        if "Traceback" in errors:
            figures["violations"].append(f"a traceback: {errors[-600:]}")
    return figures


def growing(figures: Mapping[str, Any]) -> list[str]:
    """Says by how much memory has grown, if it was not flat and the time was long enough."""
    memory = figures.get("memory_mb")
    if memory is None or figures["seconds"] < _MIN_SECONDS_OF_SLOPE:
        return []
    lowest = memory["per_million_requests"] - memory["half_interval"]
    return [f"memory grows: {memory}"] if lowest > MEMORY_LIMIT_MB else []


def _open(pid: int) -> tuple[int, int]:
    """Returns the numbers of open files and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


class _Tally:
    """Counts of requests; it must not grow like what it watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: collections.Counter[str] = collections.Counter()
        self.busy = 0
        self.problems: list[str] = []
        self.milliseconds = array.array("f")

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            self.requests[outcome.kind] += 1
            self.busy += outcome.status == serving_requests.BUSY
            if outcome.problem:
                self.problems.append(outcome.problem)
            if outcome.kind == "valid" and outcome.status == 200:
                self.milliseconds.append(1e3 * outcome.seconds)


def _figures(
    tally: _Tally, samples: list[tuple[int, float]], clients: int, seconds: float
) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "clients": clients,
        "seconds": round(seconds, 1),
        "requests": dict(sorted(tally.requests.items())),
        "busy": tally.busy,
        "problems": len(tally.problems),
        "violations": tally.problems[:_MAX_PROBLEMS],
    }
    if tally.milliseconds:
        p50, p99 = np.percentile(tally.milliseconds, [50, 99])
        figures |= {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}
    kept = samples[int(_WARM_UP * len(samples)) :]
    if len(kept) > 2:
        per_million, half = slope([each[0] for each in kept], [each[1] for each in kept])
        figures["memory_mb"] = {
            "first": round(kept[0][1], 1),
            "last": round(kept[-1][1], 1),
            "per_million_requests": round(per_million, 1),
            "half_interval": round(half, 1),
        }
    return figures


def _plain(answer: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in answer.items()}


def main() -> None:
    """Reads the flags, loads both and writes the figures; exits with 1 on violations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    options = parser.parse_args()
    from tests.conftest import write_tiny_data
    from tests.electra_tf.inference.web_demo.exports import write_exports

    found: dict[str, Any] = {"violations": []}
    seconds = 30 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        write_tiny_data(folder / "data")
        write_exports(folder, folder / "data")
        for part, soak in (
            ("page", lambda: soak_page(folder, seconds, options.clients, options.seed)),
            (
                "saved_model",
                lambda: load(
                    model_sender(folder), seconds, options.clients, options.seed, os.getpid()
                ),
            ),
        ):
            figures = soak()
            print(part, figures, flush=True)
            found["violations"] += [f"{part}: {each}" for each in figures.pop("violations")]
            found["violations"] += [f"{part}: {each}" for each in growing(figures)]
            found[part] = figures
            options.figures.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(bool(found["violations"]))


if __name__ == "__main__":
    main()
