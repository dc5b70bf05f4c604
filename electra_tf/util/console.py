"""Progress, durations, Markdown tables and warnings on the console."""

import functools
import os
import sys
import time
from collections.abc import Sequence
from typing import TextIO

SECONDS_BETWEEN_LOG_LINES = 10.0
SECONDS_BETWEEN_REDRAWS = 0.2


class ProgressBar:
    """Progress through the bytes of a corpus: percentage, rates, examples and time left.

    On a terminal one line is redrawn; elsewhere a plain line is printed every ten seconds.

    Args:
        total_disk_bytes: size of the input on disk.
        stream: where to print; standard output by default.
        unit: plural name of the examples.
    """

    def __init__(
        self, total_disk_bytes: int, stream: TextIO | None = None, unit: str = "examples"
    ) -> None:
        # Imported here, because tables are also printed where it is not installed.
        import tqdm

        self._stream = stream or sys.stdout
        self._total = max(1, total_disk_bytes)
        self._unit = unit
        self._bar = tqdm.tqdm(
            total=self._total,
            file=self._stream,
            unit="B",
            unit_scale=True,
            leave=False,
            dynamic_ncols=True,
            mininterval=SECONDS_BETWEEN_REDRAWS,
            disable=not self._stream.isatty(),
        )
        self._start = self._last_line = time.monotonic()

    def update(self, disk_bytes: int, text_bytes: int, examples: int) -> None:
        """Shows the totals so far, unless they were shown a moment ago.

        The clock starts with the first text: loading TensorFlow takes longer than reading a
        small corpus.
        """
        now = time.monotonic()
        if not text_bytes:
            self._start = now
            self._bar.unpause()
            return
        elapsed = max(1e-9, now - self._start)
        rate = text_bytes / 1e6 / elapsed
        counts = f"{rate:.1f} MB/s of text, {examples:,} {self._unit}"
        if not self._bar.disable:
            self._bar.set_postfix_str(counts, refresh=False)
            self._bar.update(disk_bytes - self._bar.n)
        elif now - self._last_line >= SECONDS_BETWEEN_LOG_LINES:
            self._last_line = now
            line = self._bar.format_meter(
                disk_bytes, self._total, elapsed, unit="B", unit_scale=True, postfix=counts
            )
            print(line.strip(), file=self._stream, flush=True)

    def close(self) -> float:
        """Clears the line on a terminal; returns the seconds since the first text."""
        self._bar.close()
        return time.monotonic() - self._start


def format_seconds(seconds: float) -> str:
    """Formats a duration as `42 s`, `3:05` (minutes) or `1:02:03` (hours)."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def percent(share: float | None) -> str:
    """Formats a fraction as a percentage, below 1 % with two decimals; `-` for None.

    Only 0 is shown as 0 %, and only 1 as 100 %.
    """
    if share is None:
        return "-"
    if 0 < share < 0.00005:
        return "<0.01%"
    if 0.9995 <= share < 1:
        return ">99.9%"
    return f"{share:.2%}" if 0 < share < 0.01 else f"{share:.1%}"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int
) -> str:
    """Returns a Markdown table; columns after the first `text_columns` are right-aligned."""
    alignment = ["---" if i < text_columns else "---:" for i in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    escaped.insert(1, alignment)
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped)


def use_color(chosen: bool | None) -> bool:
    """Returns whether to print colors: as chosen, else on a terminal without NO_COLOR.

    Args:
        chosen: value of --color; None if not given.
    """
    if chosen is not None:
        return chosen
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def discard(message: str) -> None:
    """Prints nothing; replaces `print`."""


@functools.cache
def warn_once(message: str) -> None:
    """Prints a warning to standard error, the first time only."""
    print(f"warning: {message}", file=sys.stderr, flush=True)
