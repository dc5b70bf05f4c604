"""Makes standard input, output and error usable, however a program was started.

A supervisor may close them (`>&-`), a locale may lack characters of the output, and a path may
contain bytes that are not valid text.
"""

import codecs
import contextlib
import io
import os
import sys

_ERRORS = "escape_or_keep_bytes"
_NAMES = ("stdin", "stdout", "stderr")


def prepare_standard_streams() -> None:
    """Opens the streams that are closed, and lets any text be printed.

    Otherwise, the next file to be opened would get the number of a closed stream, and native
    code that prints to standard error would write into that file.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            # All lower numbers are in use, so it gets this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            stream = open(number, "r" if name == "stdin" else "w", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    codecs.register_error(_ERRORS, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def discard_output() -> bool:
    """Returns whether standard output cannot be written.

    If so, it is discarded, so that Python can exit with the program's status.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Writes bytes of paths unchanged, and characters that cannot be encoded as `\\u2026`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    with contextlib.suppress(UnicodeEncodeError):
        return codecs.lookup_error("surrogateescape")(error)
    return codecs.lookup_error("backslashreplace")(error)
