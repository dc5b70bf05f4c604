"""The part of RELIABILITY.md about inputs that coverage-guided fuzzing made."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import markdown_table

_TEXT = """\
## Untrusted input

[Atheris](https://github.com/google/atheris) changes valid inputs and keeps those that reach
other branches of the readers (`tests/faults/fuzzing.py`). Each input must be read, or refused
by one message that names the file; text must have the ids of a tokenizer in plain Python. No
input may take more than 30 seconds or 4 GB. *Kept* inputs reached something new; *branches* are
places of this project's code, which TensorFlow's and safetensors' own readers are not.
"""


def promise(fuzzing: Mapping[str, Any]) -> str:
    """Returns the row of the table of promises."""
    inputs = sum(each["inputs"] for each in fuzzing["targets"].values())
    figures = f"{inputs:,} inputs" if inputs else "not tried"
    return (
        "| Files from strangers are read or refused, in bounded time and memory; none runs "
        f"code. | `tests/faults/fuzzing.py`, `tests/fuzz` | {figures} |"
    )


def section(fuzzing: Mapping[str, Any]) -> str:
    """Returns the section with its table, or why there is none."""
    if "left_out" in fuzzing:
        return f"{_TEXT}\nNot tried: {fuzzing['left_out']}."
    rows = [
        [name, *(f"{each[key]:,}" for key in ("inputs", "branches", "kept", "seconds"))]
        for name, each in fuzzing["targets"].items()
    ]
    columns = ["input", "tried", "branches", "kept", "seconds"]
    return f"{_TEXT}\n{markdown_table(columns, rows, text_columns=1)}"
