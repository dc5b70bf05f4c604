"""Refuses pipes as files that are read several times: a pipe can be read only once."""

import os
import stat
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError

# Flags of such files.
_READ_AGAIN = ("task_spec", "vocab_file", "word_list")


def refuse_pipes(values: Mapping[str, Any], spelling: str) -> None:
    """Raises UserError for a pipe where a second read would wait forever.

    Args:
        values: values of flags, or of hyperparameters.
        spelling: how an error names a value, a format string of `name` and `value`.
    """
    for name in _READ_AGAIN:
        value = values.get(name)
        try:
            mode = os.stat(value).st_mode if value else stat.S_IFREG
        except (OSError, ValueError):  # missing, remote, or inline JSON
            continue
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
            named = spelling.format(name=name, value=value)
            raise UserError(
                f"{named} is a pipe or device, but this file is read several times: pass the "
                "path of a file"
            )
