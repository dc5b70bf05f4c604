"""A bar of training steps on a terminal."""

from typing import TextIO

import tqdm

from electra_tf.util.console import SECONDS_BETWEEN_REDRAWS


class StepBar:
    """Training steps on a terminal, with rate and time left; elsewhere it shows nothing.

    Args:
        num_train_steps: number of steps of the whole run.
        first_step: global step at the start.
        stream: where to print.
    """

    def __init__(self, num_train_steps: int, first_step: int, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = False
        self._bar = tqdm.tqdm(
            total=num_train_steps,
            initial=first_step,
            file=stream,
            unit="step",
            leave=False,
            dynamic_ncols=True,
            delay=SECONDS_BETWEEN_REDRAWS,
            mininterval=SECONDS_BETWEEN_REDRAWS,
            disable=not stream.isatty(),
        )

    def show(self, step: int) -> None:
        """Shows the global step, unless the bar was redrawn a moment ago."""
        if not self._bar.disable:
            self._is_shown = True
            self._bar.update(step - self._bar.n)

    def clear(self) -> None:
        """Removes the bar until it is shown again, so that others can print."""
        self._is_shown = False
        self._bar.clear()

    def print(self, line: str) -> None:
        """Prints a line above the bar."""
        self._bar.clear()
        print(line, file=self._stream, flush=True)
        if self._is_shown:
            self._bar.refresh()

    def close(self) -> None:
        """Removes the bar."""
        self._bar.close()
