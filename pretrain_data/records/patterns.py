"""Comma-separated files and glob patterns; imports no TensorFlow."""

import glob
import os


def split_patterns(patterns: str) -> list[str]:
    """Returns comma-separated patterns, without the empty ones and the spaces around them.

    A comma in the name of a folder that exists does not separate.
    """
    pieces = patterns.split(",")
    found = []
    while pieces:
        end = next(
            (i for i in range(len(pieces), 1, -1) if _is_in_folder(",".join(pieces[:i]))), 1
        )
        found.append(",".join(pieces[:end]).strip())
        pieces = pieces[end:]
    return [pattern for pattern in found if pattern]


def pattern_of_files(pattern: str) -> str:
    """Returns a pattern in which the name of a folder or file that exists means itself.

    So the files of `data[1]/*` are those in `data[1]`, if there is such a folder.
    """
    if os.path.exists(pattern):
        return glob.escape(pattern)
    folder, name = os.path.split(pattern)
    return os.path.join(glob.escape(folder), name) if os.path.isdir(folder) else pattern


def _is_in_folder(pattern: str) -> bool:
    folder, name = os.path.split(pattern.strip())
    return "," not in name and os.path.isdir(folder)
