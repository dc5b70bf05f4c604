"""Changes the product in many small ways; counts the changes that its tests notice.

    make mutants MUTANTS='--minutes 30'
    python -m tests.mutation.run --python .venv/bin/python --only masking --minutes 10
    python -m tests.mutation.run --python .venv/bin/python --survivors

Runs in the environment of the maintainers' tools, which has Cosmic Ray; the tests run in that
of `--python`, on a copy of the checkout. `tests/mutation/README.md` has the figures.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult

from tests.mutation import client
from tests.mutation.report import FIGURES, page, read_equivalents
from tests.mutation.sampling import sample
from tests.mutation.sources import changed_lines
from tests.mutation.targets import TARGETS

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "tests/mutation/README.md"
# Unchanged tests must pass; a mutant may take so much longer before it counts as noticed.
TIMEOUT_FACTOR, TIMEOUT_SECONDS = 3, 20
stopped = threading.Event()
# Of a module; "unmade" are those that Cosmic Ray fails to make, such as of `except a.B`.
COUNTS = ("places", "tried", "killed", "timeouts", "unmade")
OPERATORS = "cosmic_ray/operators/"
# Of a run that is not repeated to time it.
ENOUGH_SECONDS = 15
# Rewriting assertions, for better messages, takes as long as the tests.
PYTEST = ("-x", "-p", "no:cacheprovider", "--assert=plain", "--durations=0", "--no-header")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program; writes figures and the page after each module."""
    options = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):  # the mutant that is tried is the last
        signal.signal(number, lambda *_: stopped.set())
    recorded = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"modules": {}}
    chosen = [
        (module, tests)
        for group, modules in TARGETS.items()
        for module, tests in modules.items()
        if any(name in (group, module) for name in options.only) or not options.only
    ]
    if not chosen:
        raise SystemExit(f"No group or module is called {' or '.join(options.only)}")
    deadline = time.monotonic() + 60 * options.minutes
    with Copy(options.python) as copy:
        for index, (module, tests) in enumerate(chosen):
            left = deadline - time.monotonic()
            if left < 0 or stopped.is_set():
                print(f"The time is over; left out: {', '.join(m for m, _ in chosen[index:])}")
                break
            before = recorded["modules"].get(module)
            if options.survivors and not (before and before["survivors"]):
                continue
            # Of the time that is left, each module gets the same share.
            share = time.monotonic() + left / (len(chosen) - index)
            found = copy.try_module(
                module,
                tests,
                seed=options.seed,
                most=options.most,
                deadline=share,
                before=before,
                survivors=options.survivors,
            )
            if not found["tried"]:
                continue
            recorded["modules"][module] = found
            FIGURES.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
            README.write_text(page(recorded, read_equivalents()), encoding="utf-8")
    print(f"Figures: {FIGURES}")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the program's arguments."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = made.add_argument
    add("--python", default=sys.executable, help="Python of the environment of the tests")
    add("--only", nargs="*", default=(), help="groups or modules; all by default")
    add("--seed", type=int, default=1, help="of the sample of mutants")
    add("--most", type=int, default=60, help="mutants of one module")
    add("--minutes", type=float, default=30, help="time in all")
    add("--survivors", action="store_true", help="try only the recorded survivors again")
    return made


class Copy(contextlib.ExitStack):
    """A copy of the checkout whose modules are mutated, and a server of its tests.

    Args:
        python: Python of the environment of the tests.
    """

    def __init__(self, python: str) -> None:
        super().__init__()
        # Not made absolute by its links, which lead out of the environment.
        self._python = str(pathlib.Path.cwd() / python)
        self._folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
        self._root = self._folder / "checkout"
        self._socket = str(self._folder / "socket")
        copy_checkout(self._root)
        self._start_server()

    def _start_server(self) -> None:
        command = [self._python, "-m", "tests.mutation.server", self._socket]
        with open(self._folder / "server.log", "wb") as log:
            server = subprocess.Popen(command, cwd=self._root, stdout=log, stderr=log)
        self.callback(server.wait)
        self.callback(server.kill)
        while not pathlib.Path(self._socket).exists():
            if server.poll() is not None:
                raise RuntimeError((self._folder / "server.log").read_text())
            time.sleep(0.1)

    def try_module(
        self,
        module: str,
        tests: Sequence[str],
        *,
        seed: int,
        most: int,
        deadline: float,
        before: dict[str, Any] | None,
        survivors: bool,
    ) -> dict[str, Any]:
        """Returns the figures of a module, which go on from earlier ones of the same source.

        Args:
            module: its file, relative to the root of the repository.
            tests: files or folders of tests.
            seed: of the sample.
            most: mutants that are tried at most.
            deadline: time of `time.monotonic` after which none is begun.
            before: earlier figures; or None.
            survivors: whether to try the earlier survivors again, and nothing else.
        """
        seconds = self._check_unchanged(module, tests)
        start_client = [sys.executable, "-I", str(self._root / "tests/mutation/client.py")]
        command = shlex.join([*start_client, self._socket, *self._arguments(tests)])
        timeout = TIMEOUT_FACTOR * seconds + TIMEOUT_SECONDS
        path = self._root / module
        every = all_mutations(path, self._folder / "session.sqlite")
        places = sample(path, every, seed)
        source = {"seed": seed, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        figures = dict.fromkeys(COUNTS, 0) | {"places": len(places)}
        survived: list[dict[str, Any]] = []
        if before and source.items() <= before.items():
            figures.update({name: before.get(name, 0) for name in COUNTS})
            survived = before["survivors"]
        elif survivors:
            raise SystemExit(f"{module} has changed: try all of its mutants again")
        waiting = places[figures["tried"] + figures["unmade"] : most]
        if survivors:
            again = {identity(survivor): survivor for survivor in survived}
            waiting = [p for p in every if (p.operator_name, p.occurrence) in again]
        for mutation in waiting:
            if stopped.is_set() or (time.monotonic() > deadline and not survivors):
                break
            result = mutate_and_test([mutation], command, timeout)
            if result.output == "timeout":  # of a mutant, or of a busy machine
                result = mutate_and_test([mutation], command, timeout)
            if result.worker_outcome != WorkerOutcome.NORMAL:
                if OPERATORS in (result.output or ""):
                    figures["unmade"] += 1
                    continue
                raise RuntimeError(f"{module}: {mutation}\n{result.output}")
            figures["tried"] += not survivors
            figures["timeouts"] += result.output == "timeout"
            found = describe(mutation, result)
            survived = [other for other in survived if identity(other) != identity(found)]
            if result.test_outcome == TestOutcome.SURVIVED:
                survived.append(found)
            else:
                figures["killed"] += 1
            print(f"{module}: {figures} after {seconds:.0f} s", end="\r", flush=True)
        survived.sort(key=lambda survivor: (survivor["line"], survivor["operator"]))
        print(f"{module}: {figures}, {len(survived)} survivors, {seconds:.1f} s a run")
        run = {"seconds": round(seconds, 1), "tests": [*tests], **source}
        return {**figures, **run, "survivors": survived}

    def _check_unchanged(self, module: str, tests: Sequence[str]) -> float:
        """Returns how many seconds the tests take, or a second run, with compiled modules."""
        for _ in range(2):
            start = time.monotonic()
            status, output = client.run(self._socket, self._arguments(tests))
            if status:
                raise RuntimeError(f"The tests of {module} fail without a mutant:\n{output}")
            seconds = time.monotonic() - start
            if seconds > ENOUGH_SECONDS:
                break
        return seconds

    def _arguments(self, tests: Sequence[str]) -> list[str]:
        given = [str(self._root / t) if t.startswith("tests/") else t for t in tests]
        return [*PYTEST, f"--rootdir={self._root}", *given]


def copy_checkout(root: pathlib.Path) -> None:
    """Copies the files that git has or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)


def all_mutations(path: pathlib.Path, session: pathlib.Path) -> list[MutationSpec]:
    """Returns every mutation of a module, with a session file that is made anew."""
    session.unlink(missing_ok=True)
    with use_db(session, WorkDB.Mode.create) as database:
        init([path], database, {})
        return [mutation for item in database.work_items for mutation in item.mutations]


def describe(mutation: MutationSpec, result: WorkResult) -> dict[str, Any]:
    """Returns a survivor: line, operator, and the lines before and after."""
    removed, added = changed_lines(result.diff or "")
    return {
        "line": mutation.start_pos[0],
        "operator": mutation.operator_name,
        "occurrence": mutation.occurrence,
        "was": removed,
        "is": added,
    }


def identity(survivor: dict[str, Any]) -> tuple[str, int]:
    """Returns what tells a mutant from the others of its module."""
    return survivor["operator"], survivor["occurrence"]


if __name__ == "__main__":
    main()
