"""Comma-separated files and glob patterns; only remote ones load TensorFlow."""

import glob
import os
import pathlib

from electra_tf.util.paths import as_path, is_remote


def split_patterns(patterns: str) -> list[str]:
    """Returns comma-separated patterns, without the empty ones and the spaces around them.

    A comma in the name of an existing folder or file does not separate.
    """
    pieces = patterns.split(",")
    found = []
    while pieces:
        end = next((i for i in range(len(pieces), 1, -1) if _exists(pieces[:i])), 1)
        found.append(",".join(pieces[:end]).strip())
        pieces = pieces[end:]
    return [pattern for pattern in found if pattern]


def pattern_of_files(pattern: str) -> str:
    """Returns a pattern in which the name of an existing folder or file is taken literally.

    For example, `data[1]/**/*` matches the files below `data[1]`, if that folder exists. In a
    remote pattern, only the folder of the files is looked up.

    Raises:
        OSError: a remote file system cannot be read.
    """
    if not glob.has_magic(pattern):
        return pattern
    if is_remote(pattern):
        folder, _, name = pattern.rpartition("/")
        is_literal = glob.has_magic(folder) and as_path(folder).is_dir()
        return f"{glob.escape(folder)}/{name}" if is_literal else pattern
    if os.path.exists(pattern):
        return glob.escape(pattern)
    parts = pathlib.PurePath(pattern).parts
    for end in range(len(parts) - 1, 0, -1):
        folder = os.path.join(*parts[:end])
        if os.path.isdir(folder):
            return os.path.join(glob.escape(folder), *parts[end:])
    return pattern


def _exists(pieces: list[str]) -> bool:
    """Whether pieces of a list are one path, of a file or of files in an existing folder."""
    pattern = ",".join(pieces).strip()
    folder, name = os.path.split(pattern)
    if "," in name:
        return os.path.exists(pattern) and not os.path.exists(pieces[0].strip())
    return os.path.isdir(folder)
