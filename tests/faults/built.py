"""Runs the programs that build data, and judges what they leave."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from electra_tf.util.errors import UserError
from pretrain_data.records.manifest import FILE_NAME, load_manifest
from tests.processes import ROOT

BUILD, VOCABULARY = "build_pretraining_dataset.py", "build_vocabulary.py"
OLD, NEW, NONE, REFUSED = "old", "new", "none", "refused"
# How long any of them may take, and its processes after the end of their parent.
TIMEOUT, SECONDS_TO_END = 900.0, 20.0
# Of prctl.h and capability.h: what lets root read and write in spite of permissions.
_PR_CAPBSET_DROP, _CAPABILITIES = 24, (1, 2)
_LIBRARY = ctypes.CDLL(None)


class End(NamedTuple):
    """How a program ended.

    Attributes:
        status: exit status; negative for a signal.
        output, errors: what it printed.
        seconds: how long it took.
        peak_mb: largest resident memory of its first process.
    """

    status: int
    output: str
    errors: str
    seconds: float
    peak_mb: float


class Running:
    """A program in a session of its own."""

    def __init__(
        self,
        program: str,
        flags: Sequence[str],
        folder: pathlib.Path,
        *,
        unprivileged: bool = False,
    ) -> None:
        """Starts it.

        Args:
            program: file, relative to the root of the repository.
            flags: its flags.
            folder: where its output is written to.
            unprivileged: let permissions bind it, even if it is root's.
        """
        self._paths = [folder / f"output-{time.monotonic_ns()}-{i}" for i in (1, 2)]
        self._start = time.monotonic()
        with self._paths[0].open("wb") as output, self._paths[1].open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / program), *flags],
                cwd=ROOT,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_heed_permissions if unprivileged else None,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def workers(self) -> list[int]:
        """Returns the ids of its processes that build."""
        found = []
        for child in _read(f"/proc/{self.pid}/task/{self.pid}/children").split():
            if "spawn_main" in _read(f"/proc/{child}/cmdline"):
                found.append(int(child))
        return found

    def kill(self, whom: int | None = None) -> None:
        """Kills it, or one of its processes, by SIGKILL."""
        try:
            os.kill(whom or self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def end(self) -> End:
        """Waits until it has ended."""
        deadline = self._start + TIMEOUT
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()
        _, status, used = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = (path.read_text(errors="replace") for path in self._paths)
        for path in self._paths:
            path.unlink()
        took = time.monotonic() - self._start
        return End(self._process.returncode, output, errors, took, used.ru_maxrss / 1024)

    def leftover(self) -> list[int]:
        """Returns processes of its session that run long after its end, and kills them."""
        deadline = time.monotonic() + SECONDS_TO_END
        while (left := self._session()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in left:
            self.kill(process)
        return left

    def _session(self) -> list[int]:
        found = []
        for entry in os.listdir("/proc"):
            # Fields behind the name: state, parent, group, session.
            fields = _read(f"/proc/{entry}/stat").rpartition(")")[2].split()
            if entry.isdigit() and len(fields) > 3 and int(fields[3]) == self.pid:
                found += [] if fields[0] == "Z" else [int(entry)]
        return found


def run(
    program: str, flags: Sequence[str], folder: pathlib.Path, *, unprivileged: bool = False
) -> End:
    """Runs a program to its end; see `Running`."""
    return Running(program, flags, folder, unprivileged=unprivileged).end()


def not_one_message(end: End, *parts: str) -> list[str]:
    """Says what is wrong if a program did not end with one message that has these parts."""
    lines = end.errors.strip().split("\n")
    if end.status != 1 or len(lines) != 1 or not lines[0].startswith("error: "):
        return [f"no message, status {end.status}: {end.errors[-600:]!r}"]
    return [f"{part!r} is not in {lines[0]!r}" for part in parts if part not in lines[0]]


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns the files with final names in a folder, at any depth."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            found[str(name)] = path.read_bytes()
    return found


def judge(
    folder: pathlib.Path, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> tuple[str, list[str]]:
    """Says which records are in a folder, and what must not be there.

    Args:
        folder: of the records.
        old, new: what was there before, and what was being built; as `contents` returns it.
    """
    found = contents(folder)
    half = [
        f"{name} has {len(content):,} bytes, neither the old nor the new ones"
        for name, content in found.items()
        if not name.endswith(FILE_NAME) and content not in (old.get(name), new.get(name))
    ]
    if found == old:
        return OLD if old else NONE, half
    if found == new:
        return NEW, half
    try:
        load_manifest(folder)
    except UserError:
        return REFUSED, half
    return "a mixture", [*half, f"a mixture is read: {sorted(found)}"]


def hidden(folder: pathlib.Path) -> list[str]:
    """Says which hidden folders have been left in a folder."""
    paths = folder.glob(".*") if folder.is_dir() else ()
    return [f"{path.name} is left over" for path in paths if path.is_dir()]


def _heed_permissions() -> None:
    for capability in _CAPABILITIES:
        _LIBRARY.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
