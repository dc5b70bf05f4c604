"""What a writer of files is to the trials of `tests.faults.storage`."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

OLD, NEW, NONE = "old", "new", "none"


class Writer(NamedTuple):
    """Something that is written under final names.

    A reader says which version the programs' own code finds: `OLD`, `NEW` or `NONE`. A message
    of it to the user is a refusal.

    Attributes:
        name: what it is.
        prepare: makes the folder as it is before; what it writes is safe.
        write: the writing, which ends when the user may rely on it.
        read: what the programs find.
        may_find: what they may find until then, beside NEW.
        may_refuse: whether they may refuse to read until then.
        is_kept: whether it must survive a power cut afterwards; a cache need not.
    """

    name: str
    prepare: Callable[[pathlib.Path], None]
    write: Callable[[pathlib.Path], None]
    read: Callable[[pathlib.Path], str]
    may_find: tuple[str, ...]
    may_refuse: bool = False
    is_kept: bool = True
