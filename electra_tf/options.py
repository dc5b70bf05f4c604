"""Fields of configurations that `flags/` turns into command-line flags."""

import dataclasses
from typing import Any

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("adam", "lamb")


def option(default: Any, help_text: str, choices: tuple[str, ...] | None = None) -> Any:
    """Returns a dataclass field that `flags/` turns into a flag with `help_text`."""
    return dataclasses.field(default=default, metadata={"help": help_text, "choices": choices})
