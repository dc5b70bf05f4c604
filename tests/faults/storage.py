"""Faults of the disk in everything that is written, tried one by one in a process of its own.

`python -m tests.faults.storage FIGURES --seed 1 …` writes the figures; it runs with the shim.
"""

import argparse
import collections
import contextlib
import errno
import io
import json
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from tests.faults.disk import Disk, Tree, digest, write_tree
from tests.faults.shim import Kind, Shim, read_events

# What is tried at every change.
FAULTS = {
    "ENOSPC, the disk stays full": (Kind.FULL, errno.ENOSPC),
    "ENOSPC once": (Kind.ERROR, errno.ENOSPC),
    "EIO once": (Kind.ERROR, errno.EIO),
    "EIO from then on": (Kind.GONE, errno.EIO),
    "short write": (Kind.SHORT, errno.ENOSPC),
}
REFUSED = "refused"


class Trials:
    """Tries faults in one writer, in folders of its own."""

    def __init__(self, writer: Any, folder: pathlib.Path, seed: int) -> None:
        self._writer = writer
        self._folder = folder
        self._seed = seed
        self._before = folder / "before"
        self._before.mkdir(parents=True)
        writer.prepare(self._before)
        self._count = 0
        self._shim = Shim()
        self.figures: dict[str, Any] = {"outcomes": collections.Counter(), "violations": []}

    def crashes(self, limit: int | None, trials: int) -> None:
        """Cuts the power after every change; those after the last one are all read.

        Args:
            limit: number of different images of the disk to read; None reads all.
            trials: number of random images of a disk after each change.
        """
        generator = random.Random(self._seed)
        folder = self._copy()
        disk, log = Disk(str(folder)), str(self._folder / "log")
        self._shim.record(str(folder), log)
        self._writer.write(folder)
        self._shim.stop()
        events = list(read_events(log))
        assert events, "nothing was recorded"
        images: dict[str, tuple[str, Tree, bool]] = {}
        count = 0
        for number in range(len(events) + 1):
            if number:
                disk.apply(events[number - 1])
            is_last = number == len(events)
            for variant, tree in disk.images(generator, trials):
                count += 1
                what = f"power cut after change {number}/{len(events)}, {variant}"
                images.setdefault(f"{digest(tree)} {is_last}", (what, tree, is_last))
        last = [image for image in images.values() if image[2]]
        before = [image for image in images.values() if not image[2]]
        read = [*_some(before, limit, generator), *last]
        for what, tree, is_last in read:
            place = self._new()
            write_tree(tree, place)
            self._judge(place, what, is_done=is_last and self._writer.is_kept)
        self.figures |= {
            "crash_points": len(events) + 1,
            "images": count,
            "different_images": len(images),
            "images_read": len(read),
        }

    def errors(self, limit: int | None) -> None:
        """Lets every change fail in turn, in every way.

        Args:
            limit: number of failures to try; None tries all.
        """
        generator = random.Random(self._seed)
        place = self._copy()
        self._shim.record(str(place), None)
        self._writer.write(place)
        changes = self._shim.stop()
        shutil.rmtree(place)
        faults = [(number, name) for number in range(changes) for name in FAULTS]
        tried = _some(faults, limit, generator)
        for number, name in tried:
            self._fail(f"{name} at change {number}/{changes}", number, *FAULTS[name])
        self.figures |= {"changes": changes, "errors_tried": len(tried)}

    def _fail(self, what: str, number: int, kind: Kind, error: int) -> None:
        place = self._copy()
        self._shim.record(str(place), None)
        self._shim.fail(number, kind, error)
        problem = None
        try:
            self._writer.write(place)
        except Exception as caught:
            problem = caught
        self._shim.stop()
        if problem is not None and not is_message(problem):
            self._violation(what, f"not a message: {_spelled(problem)}")
        self._judge(place, what, is_done=problem is None and self._writer.is_kept)

    def _judge(self, place: pathlib.Path, what: str, *, is_done: bool) -> str:
        """Reads, writes again and reads again; notes what must not be."""
        found = self._read(place, what)
        self.figures["outcomes"][found] += 1
        writer = self._writer
        allowed = {"new"} if is_done else {"new", *writer.may_find}
        if not is_done and writer.may_refuse:
            allowed.add(REFUSED)
        if found not in allowed:
            self._violation(what, f"found: {found}")
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                writer.write(place)
                again = writer.read(place)
            except Exception as error:
                again = _spelled(error)
        if again != "new":
            self._violation(what, f"written again: {again}")
        shutil.rmtree(place)
        return found

    def _read(self, place: pathlib.Path, what: str) -> str:
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                return self._writer.read(place)
            except Exception as error:
                if is_message(error):
                    self._last_refusal = str(error)
                    return REFUSED
                self._violation(what, f"reading: {_spelled(error)}")
                return "damaged"

    def _violation(self, what: str, found: str) -> None:
        self.figures["violations"].append(
            f"{self._writer.name}, seed {self._seed}, {what}: {found}"
        )

    def _copy(self) -> pathlib.Path:
        return pathlib.Path(shutil.copytree(self._before, self._new()))

    def _new(self) -> pathlib.Path:
        self._count += 1
        return self._folder / f"{self._count}"


def _some(each: list, limit: int | None, generator: random.Random) -> list:
    return each if limit is None else generator.sample(each, min(limit, len(each)))


def is_message(error: Exception) -> bool:
    """Whether the programs print an error in a line, without a traceback."""
    from electra_tf.util.errors import UserError
    from flags.command_line.program import USER_ERRNOS

    return isinstance(error, UserError) or (
        isinstance(error, OSError) and error.errno in USER_ERRNOS
    )


def _spelled(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{pathlib.Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__} ({where}): {str(error)[:200]}"


def try_all(
    seed: int, limit: int | None, trials: int, names: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the figures of each writer."""
    from tests.faults.writers import CARELESS, WRITERS

    chosen = [writer for writer in (*WRITERS, CARELESS) if writer.name in names]
    for writer in chosen or WRITERS:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            tried = Trials(writer, pathlib.Path(folder).resolve() / "trials", seed)
            tried.crashes(limit, trials)
            tried.errors(limit)
        yield writer.name, {**tried.figures, "cpu_seconds": time.process_time() - start}


def main() -> None:
    """Runs the trials, and writes the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--writer", action="append", default=[])
    options = parser.parse_args()
    found = {}
    for name, figures in try_all(options.seed, options.limit, options.trials, options.writer):
        found[name] = figures
        options.figures.write_text(json.dumps(found, indent=2))
    sys.exit(any(figures["violations"] for figures in found.values()))


if __name__ == "__main__":
    main()
