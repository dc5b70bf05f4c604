"""Progress, durations and Markdown tables on the console."""

import sys
import time
from collections.abc import Sequence
from typing import TextIO

SECONDS_BETWEEN_LOG_LINES = 10.0
SECONDS_BETWEEN_REDRAWS = 0.2


class ProgressLine:
    """Shows the share done, MB/s of text, how much was made of it and the time left."""

    def __init__(
        self, total_disk_bytes: int, stream: TextIO | None = None, unit: str = "examples"
    ):
        """Starts the clock.

        Args:
            total_disk_bytes: what has to be read from the disk.
            stream: where the line goes, standard output by default. A terminal gets one
                line that is rewritten, anything else a new line every ten seconds.
            unit: what the examples are called.
        """
        self._total = max(1, total_disk_bytes)
        self._unit = unit
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._interval = (
            SECONDS_BETWEEN_REDRAWS if self._is_terminal else SECONDS_BETWEEN_LOG_LINES
        )
        self._start = self._last_shown = time.monotonic()
        self._has_drawn = False

    def update(self, disk_bytes: int, text_bytes: int, examples: int) -> None:
        """Shows totals so far, unless the last time was a moment ago.

        The clock starts anew as long as nothing has been read: loading TensorFlow takes
        longer than reading a small corpus.
        """
        now = time.monotonic()
        if not text_bytes:
            self._start = now
            return
        if now - self._last_shown < self._interval:
            return
        self._last_shown = now
        elapsed = now - self._start
        share = min(1.0, disk_bytes / self._total)
        left = format_seconds(elapsed / share - elapsed) if share else "?"
        line = (
            f"{share:4.0%}  {text_bytes / elapsed / 1e6:.1f} MB/s  "
            f"{examples:,} {self._unit}  {left} left"
        )
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{line}")
            self._has_drawn = True
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def close(self) -> float:
        """Clears the line on a terminal; returns the seconds since the start."""
        if self._has_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        return time.monotonic() - self._start


def format_seconds(seconds: float) -> str:
    """Spells a duration as `42 s`, `3:05` (minutes) or `1:02:03` (hours)."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int
) -> str:
    """Returns a Markdown table, the columns after the first `text_columns` flush right."""
    alignment = ["---" if i < text_columns else "---:" for i in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    escaped.insert(1, alignment)
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped)
