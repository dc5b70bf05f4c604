"""The error of a corpus file that cannot be read."""

import contextlib
import os
import zlib
from collections.abc import Iterator

from electra_tf.util.errors import UserError

FILE, FOLDER = "Corpus file", "Corpus folder"


class UnreadableError(UserError):
    """A file or folder of the corpus cannot be read.

    Attributes:
        path: the file or folder.
        reason: why, in a few words.
    """

    def __init__(self, kind: str, path: str | os.PathLike, flag: str, reason: str) -> None:
        super().__init__(
            f"{kind} {path} ({flag}) {reason}. Repair or remove it; the programs that build "
            "records can also skip what cannot be read (--skip_unreadable)."
        )
        self._arguments = (kind, str(path), flag, reason)
        self.path, self.reason = str(path), reason

    def __reduce__(self) -> tuple:
        return type(self), self._arguments


def reason_of_os_error(error: OSError) -> str:
    """Returns why a file cannot be read."""
    reason = error.strerror or " ".join(str(error).split()).rstrip(".")
    return f"cannot be read: {reason}"


@contextlib.contextmanager
def naming_file(path: os.PathLike, flag: str, compression: str | None) -> Iterator[None]:
    """Turns errors of reading and decompressing into `UnreadableError`.

    Args:
        path: the file.
        flag: flag to name in errors.
        compression: name of its compression, None if it is not compressed.
    """
    try:
        yield
    except UnreadableError:
        raise
    except (EOFError, zlib.error) as error:
        reason = f"is not a complete {compression} file: {error}"
        raise UnreadableError(FILE, path, flag, reason) from error
    except OSError as error:
        # gzip.BadGzipFile has no errno.
        if compression is not None and error.errno is None:
            reason = f"is not a complete {compression} file: {error}"
        else:
            reason = reason_of_os_error(error)
        raise UnreadableError(FILE, path, flag, reason) from error
