"""Exceptions that a command prints as a message, and hints for misspelled names."""

import difflib
import re
from collections.abc import Iterable

_TENSORFLOW_ERROR, _EXHAUSTED = "OpError", "ResourceExhaustedError"
_DISK_MESSAGES = ("No space left", "quota")
# Parts of the out-of-memory messages of TensorFlow, XLA and CUDA, in errors of any type.
_MEMORY_MESSAGES = (
    "Dst tensor is not initialized",
    "OOM when allocating",
    "Out of memory",
    "out of memory",
    "OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED",
    "STATUS_ALLOC_FAILED",
    "failed to allocate",
    "Failed to allocate",
)
_NODE_NAME = re.compile(r"^\{\{.*?\}\} ?")


class UserError(ValueError):
    """Bad input: the message names the flag, file or record and what was expected.

    Command lines print it without a traceback and exit with status 1.
    """


class LockedError(UserError):
    """Another program trains in the folder, or converts a checkpoint into it."""


def refuse_single_string(name: str, values: Iterable[str]) -> None:
    """Raises UserError for a single string, whose characters would be the list's strings."""
    if isinstance(values, str):
        raise UserError(f"{name} must be a list of strings, not {values!r:.80}")


def nearest_name_hint(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?`, or an empty string if no known name is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def reason_of(error: Exception) -> str:
    """Returns why a file operation of Python or TensorFlow failed, in one line."""
    if isinstance(error, OSError):
        # If renaming a file fails, the user knows its new name.
        name = error.filename2 or error.filename
        named = f"{name}: " if name else ""
        return f"{named}{error.strerror or error}"
    # TensorFlow puts the names of the node and of the operation around its message.
    message = getattr(error, "message", None) or str(error)
    message = _NODE_NAME.sub("", message).partition(" [Op:")[0]
    return message.strip().partition("\n")[0][:300]


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error of Python or TensorFlow means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    # By name, since TensorFlow may not be loaded. A full disk raises the same class.
    kinds = {each.__name__ for each in type(error).__mro__}
    if _TENSORFLOW_ERROR not in kinds:
        return False
    message = getattr(error, "message", None) or str(error)
    if any(words in message for words in _DISK_MESSAGES):
        return False
    return _EXHAUSTED in kinds or any(words in message for words in _MEMORY_MESSAGES)


class PreemptedError(BaseException):
    """The run was preempted after saving a checkpoint from which it can resume.

    Like KeyboardInterrupt, it is not an `Exception`: a signal can raise it anywhere, also where
    any `Exception` means that a file is damaged.

    Command lines exit with `exit_status`, the same as that of
    `tf.distribute.experimental.PreemptionCheckpointHandler`.
    """

    exit_status = 42


class WorkerLostError(Exception):
    """Another worker of the run has failed or is unreachable; exits with `exit_status`."""

    exit_status = 43


def not_utf8(error: UnicodeDecodeError) -> str:
    """Returns "line N is not UTF-8 (byte 0xXX)" for text that was decoded as a whole."""
    line = error.object[: error.start].count(b"\n") + 1
    return f"line {line} is not UTF-8 (byte 0x{error.object[error.start]:02x})"
