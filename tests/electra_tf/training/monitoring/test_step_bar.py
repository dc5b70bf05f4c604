"""The bar of training steps on a terminal."""

import io

import pytest

from electra_tf.training.monitoring.log import TrainLog
from electra_tf.training.monitoring.step_bar import StepBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("electra_tf.training.monitoring.step_bar.SECONDS_BETWEEN_REDRAWS", 0.0)


def test_the_bar_counts_the_steps_of_the_whole_run_and_goes_at_the_end():
    terminal = Terminal()
    bar = StepBar(200, first_step=50, stream=terminal)
    bar.show(100)
    shown = terminal.getvalue().split("\r")[-1]
    assert "50%" in shown
    assert "100/200" in shown
    bar.close()
    assert terminal.getvalue().split("\r")[-2].strip() == ""  # overwritten with spaces


def test_lines_of_the_log_are_whole_lines_on_a_terminal(tmp_path):
    terminal = Terminal()
    log = TrainLog(
        str(tmp_path), first_step=0, num_train_steps=100, batch_size=8, stream=terminal
    )
    log.progress(10)
    assert "10/100" in terminal.getvalue()
    log.training(10, {"loss": 1.5})
    # Until the next steps are done, the bar stays below the line.
    assert "10/100" in terminal.getvalue().splitlines()[-1]
    log.close()
    (line,) = [line for line in terminal.getvalue().splitlines() if "loss" in line]
    assert line.startswith("step  10/100")


def test_a_cleared_bar_is_not_drawn_below_a_line():
    terminal = Terminal()
    bar = StepBar(100, first_step=0, stream=terminal)
    bar.show(50)
    bar.clear()
    bar.print("a line")
    assert terminal.getvalue().endswith("\ra line\n")


def test_nothing_is_drawn_where_output_is_not_a_terminal(tmp_path):
    piped = io.StringIO()
    bar = StepBar(100, first_step=0, stream=piped)
    bar.show(50)
    bar.clear()
    bar.print("a line")
    bar.close()
    assert piped.getvalue() == "a line\n"
