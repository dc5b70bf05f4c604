"""The one exception that means "the input is wrong, and here is how to mend it"."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input: the message names the flag, file or record and what was expected.

    Command lines print it without a traceback and exit with status 1.
    """


def nearest_name_hint(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?`, or an empty string when no known name is near."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]!r}?" if matches else ""


class PreemptedError(Exception):
    """The run was told to end, and did so in a state that it can go on from.

    Command lines exit with `exit_status`, that of
    `tf.distribute.experimental.PreemptionCheckpointHandler`.
    """

    exit_status = 42


class WorkerLostError(Exception):
    """Another worker of the run has ended or cannot be reached; exits with `exit_status`."""

    exit_status = 43
