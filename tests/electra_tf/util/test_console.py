"""What is printed to a terminal, and when it is closed."""

import os
import pty

import pytest

from electra_tf.util.console import discard_closed_terminal


def test_a_closed_terminal_gets_nothing_and_a_file_stays_one():
    terminal, screen = pty.openpty()
    saved = os.dup(1), os.dup(2)
    reading, writing = os.pipe()
    try:
        os.dup2(screen, 1)
        os.dup2(writing, 2)
        os.close(terminal)
        os.close(screen)
        with pytest.raises(OSError, match="Input/output error"):
            os.write(1, b"lost")
        discard_closed_terminal()
        assert os.write(1, b"lost") == 4
        os.write(2, b"kept")
    finally:
        for number, descriptor in zip((1, 2), saved, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(writing)
    assert os.read(reading, 9) == b"kept"
    os.close(reading)
