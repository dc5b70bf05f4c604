"""Imports TensorFlow without the messages that its libraries print while they load."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def suppress_native_stderr() -> Iterator[None]:
    """Drops what native code writes to standard error.

    TensorFlow's log level does not hold back what it logs before the logging is set up.
    Errors are Python exceptions and come through.
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
    """Loads TensorFlow and TensorFlow Text; a user's own log level wins."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with suppress_native_stderr():
        import tensorflow
        import tensorflow_text  # noqa: F401

        # The first look for devices talks too.
        tensorflow.config.list_physical_devices()
    tensorflow.get_logger().setLevel("ERROR")
