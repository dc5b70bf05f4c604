"""Turns of inference: processes that run forward passes when asked, and their rates."""

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.side_by_side import Child, busy_seconds

# Clock ticks and the parent itself take as much of a turn.
TOLERATED_CORES = 0.15

# Keras's policies; XLA is what `--jit_compile` of run_finetuning.py uses.
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
XLA = " + XLA"
OURS = {"float32": ("float32", f"float32{XLA}"), "bfloat16": ("mixed_bfloat16",)}
REFERENCE = "ours, float32"
# `_compiled` is torch.compile, of converted weights in bfloat16.
THEIRS = {
    "float32": ("float32", "float32_compiled"),
    "bfloat16": ("bfloat16", "bfloat16_autocast", "bfloat16_compiled"),
}


def ours(precision: str) -> tuple[str, ...]:
    """Returns the names of our variants."""
    return tuple(f"ours, {way}" for way in OURS[precision])


def theirs(precision: str) -> tuple[str, ...]:
    """Returns the names of their variants."""
    return tuple(f"Hugging Face, {way}" for way in THEIRS[precision])


_ALL_OURS = [name for precision in OURS for name in ours(precision)]
# Ratios to report, the one against the best peer first.
RATIOS = {
    "our best / their best": (
        _ALL_OURS,
        [name for precision in THEIRS for name in theirs(precision)],
    ),
    "float32 / float32": (ours("float32"), theirs("float32")),
    "bfloat16 / bfloat16": (ours("bfloat16"), theirs("bfloat16")),
    "our best / their float32": (_ALL_OURS, theirs("float32")),
}


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a child reports of one turn, `max_rss` in KiB; `other_cores` is its parent's."""

    forwards: int
    seconds: float
    cpu_seconds: float
    max_rss: int
    other_cores: float = 0.0


class InferenceChild(Child):
    """A process that runs forward passes when it is asked to."""

    def run(self, batch_size: int, length: int, seconds: float) -> Turn:
        """Runs forward passes for so long, one at least."""
        busy_before, start = busy_seconds(), time.perf_counter()
        turn = Turn(**self.ask(json.dumps([batch_size, length, seconds])))
        busy = busy_seconds() - busy_before - turn.cpu_seconds
        other_cores = max(0.0, busy / (time.perf_counter() - start))
        return dataclasses.replace(turn, other_cores=other_cores)


class Cell:
    """The measurements of one shape."""

    def __init__(self, shape: tuple[int, int], rounds: Sequence[Mapping[str, Turn]]) -> None:
        self.shape = shape
        self._rounds = rounds

    def rates(self, name: str) -> list[float]:
        """Returns sequences per second in each round."""
        turns = [turns[name] for turns in self._rounds]
        return [self.shape[0] * turn.forwards / turn.seconds for turn in turns]

    def fastest(self, names: Sequence[str]) -> str | None:
        """Returns the variant with the highest median among those that were run."""
        names = [name for name in names if name in self._rounds[0]]
        if not names:
            return None
        return max(names, key=lambda name: statistics.median(self.rates(name)))

    def ratios(self, ours: Sequence[str], theirs: Sequence[str]) -> list[float]:
        """Returns the rate of our fastest over that of their fastest, in each round."""
        first, second = self.fastest(ours), self.fastest(theirs)
        if first is None or second is None:
            return []
        pairs = zip(self.rates(first), self.rates(second), strict=True)
        return [a / b for a, b in pairs]

    @property
    def other_cores(self) -> float:
        """Cores that other processes took: the median over all turns."""
        return statistics.median(
            t.other_cores for turns in self._rounds for t in turns.values()
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns rates, milliseconds a forward pass, cores and ratios."""
        batch_size, length = self.shape
        variants = {}
        for name in self._rounds[0]:
            turns = [turns[name] for turns in self._rounds]
            variants[name] = {
                "sequences_per_second": self.rates(name),
                "milliseconds": [1000 * turn.seconds / turn.forwards for turn in turns],
                "cores": [turn.cpu_seconds / turn.seconds for turn in turns],
                "other_cores": [turn.other_cores for turn in turns],
                "max_rss_kib": max(turn.max_rss for turn in turns),
            }
        ratios = {title: self.ratios(*names) for title, names in RATIOS.items()}
        return {
            "batch_size": batch_size,
            "length": length,
            "variants": variants,
            "ratios": ratios,
        }


def answer_turns(forward: Callable[[int, int], None]) -> None:
    """Answers each line of standard input with a line of what `forward` took.

    Args:
        forward: runs one batch of a batch size and a length, its outputs in NumPy.
    """
    import resource

    for line in sys.stdin:
        batch_size, length, seconds = json.loads(line)
        forwards, start, cpu_start = 0, time.perf_counter(), time.process_time()
        while not forwards or time.perf_counter() - start < seconds:
            forward(batch_size, length)
            forwards += 1
        turn = Turn(
            forwards=forwards,
            seconds=time.perf_counter() - start,
            cpu_seconds=time.process_time() - cpu_start,
            max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        )
        print(json.dumps(dataclasses.asdict(turn)), flush=True)


def warn_if_busy(cells: Mapping[tuple[int, int], Cell]) -> None:
    """Says where other processes took so much of the cores that the numbers mean little."""
    busy = {f"{b} x {n}": cell.other_cores for (b, n), cell in cells.items()}
    busy = {shape: cores for shape, cores in busy.items() if cores > TOLERATED_CORES}
    if busy:
        listed = ", ".join(f"{shape}: {cores:.1f}" for shape, cores in busy.items())
        print(
            "\n**The machine was busy: other processes took of the cores (median of the turns) "
            f"{listed}. Do not trust these numbers.**"
        )
