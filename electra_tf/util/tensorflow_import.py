"""Imports TensorFlow without its start-up messages, and without packages not used here."""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from types import ModuleType

from electra_tf.util.allocator import keep_freed_memory
from electra_tf.util.cpu_cores import INTEROP_THREADS, INTRAOP_THREADS, limited_cores
from electra_tf.util.errors import UserError

# TensorFlow Text imports Keras, whose scikit-learn wrappers and image plots import these if
# they are installed. That takes a third of the time of the whole import.
_UNUSED_BY_KERAS = ("sklearn", "matplotlib")


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


@contextlib.contextmanager
def hiding(modules: tuple[str, ...]) -> Iterator[None]:
    """Makes imports of these modules fail as if they were not installed, if not yet loaded.

    They can be imported again afterwards.
    """
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disables the cycle collector, whose passes grow with the number of objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_tensorflow() -> None:
    """Imports TensorFlow and TensorFlow Text; a log level set by the user is kept.

    With level 0, its start-up messages are printed, too, such as missing GPU libraries. The
    process keeps freed memory; see `electra_tf.util.allocator`. Within the CPU limit of a
    container, TensorFlow gets as many threads as the limit has cores, unless the environment
    sets threads; see `electra_tf.util.cpu_cores`. Keras's default type is float32, whatever
    the user's `~/.keras/keras.json` has for other programs.

    Raises:
        UserError: Python removes docstrings, which TensorFlow Text needs when it is imported.
    """
    if sys.flags.optimize > 1:
        raise UserError(
            "PYTHONOPTIMIZE=2, or python -OO, removes docstrings, which TensorFlow Text needs: "
            "use PYTHONOPTIMIZE=1, or none"
        )
    keep_freed_memory()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    prints_all = os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    quietly = contextlib.nullcontext if prints_all else suppress_native_stderr
    with quietly(), hiding(_UNUSED_BY_KERAS), no_garbage_collection():
        import tensorflow
        import tensorflow_text  # noqa: F401
    # The first device query prints messages, too. It ends the process if TF_XLA_FLAGS has an
    # unknown flag, which only native code names.
    with contextlib.nullcontext() if "TF_XLA_FLAGS" in os.environ else quietly():
        tensorflow.config.list_physical_devices()
    _limit_threads(tensorflow.config.threading)
    import keras

    keras.config.set_floatx("float32")
    if not prints_all:
        tensorflow.get_logger().setLevel("ERROR")


def _limit_threads(threading: ModuleType) -> None:
    """Gives TensorFlow the threads of a CPU limit, unless they are chosen or started already.

    Args:
        threading: `tf.config.threading`.
    """
    limit = limited_cores()
    if limit is None or any(name in os.environ for name in (INTRAOP_THREADS, INTEROP_THREADS)):
        return
    if (
        threading.get_intra_op_parallelism_threads()
        or threading.get_inter_op_parallelism_threads()
    ):
        return
    with contextlib.suppress(RuntimeError):  # TensorFlow has started its threads
        threading.set_intra_op_parallelism_threads(limit)
        threading.set_inter_op_parallelism_threads(limit)
