"""Paths with characters of glob patterns, which TensorFlow's readers would expand."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator

from electra_tf.util.paths import is_remote

_WILDCARDS = re.compile(r"[*?\[\\]")
# Of links, if the folder of temporary files has such characters itself.
_PLAIN_FOLDER = "/tmp"


@contextlib.contextmanager
def plain_path(path: str | os.PathLike) -> Iterator[str]:
    """Yields a path at which TensorFlow reads a folder, or a checkpoint's files, of any name.

    TensorFlow finds the files of checkpoints and SavedModels by a pattern made of their path,
    which in a folder such as `run [2]` matches nothing. For such a path, links in a temporary
    folder are yielded instead, which are removed afterwards. Remote paths are unchanged.

    Args:
        path: a folder, or the prefix of a checkpoint.
    """
    path = os.fspath(path)
    if is_remote(path) or not _WILDCARDS.search(path):
        yield path
        return
    # Array jobs may have their number in TMPDIR: job[2].
    is_plain = not _WILDCARDS.search(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(dir=None if is_plain else _PLAIN_FOLDER) as links:
        link = os.path.join(links, "linked")
        if os.path.isdir(path):
            os.symlink(os.path.abspath(path), link)
        else:
            folder, name = os.path.split(os.path.abspath(path))
            for entry in os.scandir(folder):
                if entry.name.startswith(f"{name}."):
                    os.symlink(entry.path, link + entry.name.removeprefix(name))
        yield link
