"""What the property tests share: how many inputs they try, and strategies for odd values."""

import collections
import functools
import os
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from electra_tf.util.errors import UserError, reason_of
from flags.command_line import program

FACTOR = int(os.environ.get("FUZZ", "1"))
# Inputs tried, by test.
tried: collections.Counter[str] = collections.Counter()

ODD_TEXTS = (
    *("", " ", "\t", "\n", "\r", "\0", "-", "--", ".", "..", "/", "../x", "~", "nan", "inf"),
    *(
        "-inf",
        "1e400",
        "-1",
        "0",
        "1",
        "1.5",
        "0x10",
        "1_000",
        "٣",
        "１２",
        "true",
        "null",
        "[]",
    ),
    *("{}", "[", "{", '"', "'", "\\", "%s", "{0}", "{length}", "$HOME", "gs://a/b", "a,b", ","),
    *("\ud800", "\ufeff", "\u2028", "\x1b[31m", "é", "e\u0301", "𝒜", "中文", "x" * 200),
)
ODD_NUMBERS = (
    *(
        0,
        -0.0,
        1,
        -1,
        2,
        0.5,
        1.5,
        -1.5,
        1e-320,
        1e-45,
        1e38,
        1e39,
        1e308,
        -1e308,
        2**31,
        2**53,
    ),
    *(2**63 - 1, 2**63, 10**30, -(10**30), 10**400, float("nan"), float("inf"), float("-inf")),
)
texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=12)
numbers = st.sampled_from(ODD_NUMBERS) | st.integers() | st.floats()
scalars = st.none() | st.booleans() | numbers | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def tries(examples: int, **strategies: st.SearchStrategy) -> Callable[[Callable], Callable]:
    """Decorator: calls a test with `examples` inputs drawn from strategies, and counts them."""

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def counted(*args, **kwargs):
            tried[test.__qualname__] += 1
            return test(*args, **kwargs)

        chosen = settings(
            max_examples=examples * FACTOR,
            derandomize=FACTOR == 1,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        return chosen(given(**strategies)(counted))

    return decorate


def outcome(function: Callable, *args, **kwargs):
    """Returns what a function returns, or its `UserError`, whose message is one clear line.

    Commands print errors of the file system, such as that of a path too long, like those.
    """
    try:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in program.USER_ERRNOS:
                raise
            raise UserError(reason_of(error)) from error
    except UserError as error:
        message = str(error)
        assert message.strip(), "an empty message"
        assert len(message) < 2000, f"a message of {len(message)} characters: {message[:300]}"
        assert "Traceback" not in message
        return error
