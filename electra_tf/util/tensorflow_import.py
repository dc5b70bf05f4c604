"""Imports TensorFlow without its start-up messages."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def suppress_native_stderr() -> Iterator[None]:
    """Discards what native code writes to standard error.

    TensorFlow's log level does not apply to messages before logging is initialized. Errors
    are unaffected: they are Python exceptions.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def import_tensorflow() -> None:
    """Imports TensorFlow and TensorFlow Text; a log level set by the user is kept."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with suppress_native_stderr():
        import tensorflow
        import tensorflow_text  # noqa: F401

        # The first device query prints messages, too.
        tensorflow.config.list_physical_devices()
    tensorflow.get_logger().setLevel("ERROR")
