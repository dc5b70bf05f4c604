"""Kernel fusion: element-wise functions compiled by XLA, matrix products by TensorFlow.

On CPU, TensorFlow's matrix products (oneDNN) are fast, but every element-wise operation is a
pass over memory, and its gradient several more. `fused` compiles an element-wise function
into a single kernel, and its gradient into another that recomputes intermediate values, so
the tape holds only inputs and outputs. Compiling the whole step with XLA would lose oneDNN's
bfloat16 products.

On GPUs, XLA compiles the whole step (`--jit_compile`) and forms kernels by itself. Then `fused`
only keeps XLA from storing intermediate values; see `compiled_as_a_whole`.
`electra_tf.model.gpu` has kernels that such a step calls instead of some functions.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.util import _pywrap_util_port

from electra_tf.model.compilation import compiled_by_xla
from electra_tf.model.custom_gradients import custom_gradient

_enabled = contextvars.ContextVar("fused_kernels_enabled", default=True)
_whole = contextvars.ContextVar("graph_compiled_as_a_whole", default=False)
_active: contextvars.ContextVar["CastKernels | None"] = contextvars.ContextVar(
    "cast_kernels", default=None
)


@contextlib.contextmanager
def without_fusion() -> Iterator[None]:
    """Traces fused functions as ordinary operations, for graphs without XLA."""
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


@contextlib.contextmanager
def compiled_as_a_whole() -> Iterator[None]:
    """Traces fused functions for a graph that XLA compiles as a whole.

    XLA finds that a gradient recomputes what the forward pass has computed, and would store
    that, in float32. Gradients of fused functions therefore start from inputs behind an
    optimization barrier, where XLA does not know that they are the same.
    """
    token = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(token)


def is_compiled_as_a_whole() -> bool:
    """Whether the graph that is traced is compiled as a whole."""
    return _whole.get()


def is_fusing() -> bool:
    """Whether fused functions are compiled as kernels of their own."""
    return _enabled.get() and not _whole.get()


def is_compiled() -> bool:
    """Whether XLA compiles fused functions, on their own or with the whole graph."""
    return _enabled.get() or _whole.get()


def has_onednn() -> bool:
    """Whether TensorFlow computes operations on the CPU with oneDNN.

    It does by default on processors with AVX-512, see `TF_ENABLE_ONEDNN_OPTS`.
    """
    return _pywrap_util_port.IsMklEnabled()


def barrier(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Returns the tensors; XLA does not know that the results are the same.

    None of the results is computed before all tensors are. For graphs that XLA compiles.
    """
    return list(xla.optimization_barrier(*tensors))


def fused(
    *static: str,
    sum_apart: bool = False,
    gpu_kernel: Callable[..., tf.Tensor | None] | None = None,
) -> Callable[[Callable], Callable]:
    """Decorator that compiles `function(*tensors, **static)` and its gradient with XLA.

    The function takes tensors by position and returns a tensor or a tuple of tensors.
    Integer tensors get no gradient.

    Args:
        *static: names of the keyword arguments that are Python values; each combination is
            compiled once.
        sum_apart: for functions whose vectors (float tensors of rank 1) are broadcast over
            the rows of the first tensor. Their gradients are sums over rows, whose terms XLA
            on CPU would recompute for every sum; this materializes the terms once and sums
            them in a separate kernel.
        gpu_kernel: called with the function's arguments in graphs that XLA compiles as a
            whole. It computes the same otherwise, or returns None.
    """

    def decorate(function: Callable) -> Callable:
        @functools.cache
        def compiled(values: tuple) -> Callable:
            return _with_fused_gradient(
                functools.partial(function, **dict(zip(static, values, strict=True))),
                sum_apart,
            )

        @functools.wraps(function)
        def call(*tensors: tf.Tensor, **options: object):
            if not is_compiled():
                return function(*tensors, **options)
            tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
            if is_compiled_as_a_whole():
                if gpu_kernel is not None:
                    result = gpu_kernel(*tensors, **options)
                    if result is not None:
                        return result
                bound = functools.partial(function, **options)
                if sum_apart:
                    return _of_matrices(bound, tensors)
                return _with_recomputing_gradient(bound)(*tensors)
            return compiled(tuple(options[name] for name in static))(*tensors)

        return call

    return decorate


def _with_fused_gradient(function: Callable, sum_apart: bool) -> Callable:
    forward = compiled_by_xla(function)

    @compiled_by_xla
    def backward(tensors: list[tf.Tensor], upstream: list[tf.Tensor]):
        if sum_apart:
            tensors = [
                tf.broadcast_to(x, tf.shape(tensors[0])) if _is_vector(x) else x
                for x in tensors
            ]
        differentiable = [tensor for tensor in tensors if tensor.dtype.is_floating]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(differentiable)
            outputs = function(*tensors)
        return tape.gradient(
            [y for y in tf.nest.flatten(outputs) if y.dtype.is_floating],
            differentiable,
            [dy for dy in upstream if dy is not None],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )

    @custom_gradient
    def call(*tensors: tf.Tensor):
        outputs = forward(*tensors)
        float_outputs = [y.dtype.is_floating for y in tf.nest.flatten(outputs)]

        def gradient(*upstream: tf.Tensor):
            upstream = [dy for dy, used in zip(upstream, float_outputs, strict=True) if used]
            gradients = iter(backward(list(tensors), upstream))
            gradients = [next(gradients) if x.dtype.is_floating else None for x in tensors]
            if sum_apart:
                gradients = [
                    sum_rows(g) if _is_vector(x) else g
                    for g, x in zip(gradients, tensors, strict=True)
                ]
            return gradients

        return outputs, gradient

    return call


def _of_matrices(function: Callable, tensors: list[tf.Tensor]) -> tf.Tensor:
    """Calls a function that is the same for every row; for its gradient, see `sum_apart`.

    XLA would choose layouts for more than two axes, and transpose between them.
    """
    matrices = [tf.reshape(x, [-1, x.shape[-1]]) if x.shape.rank > 2 else x for x in tensors]
    y = _with_recomputing_gradient(function, sum_apart=True)(*matrices)
    return tf.reshape(y, tf.shape(tensors[0]))


def _with_recomputing_gradient(function: Callable, sum_apart: bool = False) -> Callable:
    @custom_gradient
    def call(*tensors: tf.Tensor):
        floats = [x for x in tensors if x.dtype.is_floating]
        if not floats:
            return function(*tensors), lambda *_: [None] * len(tensors)

        def gradient(*upstream: tf.Tensor):
            # With the upstream gradient: XLA finds that equal barriers are the same.
            again = barrier(*floats, *upstream)
            again, upstream = again[: len(floats)], again[len(floats) :]
            is_summed = [sum_apart and _is_vector(x) for x in again]
            again = [
                tf.broadcast_to(x, tf.shape(tensors[0])) if summed else x
                for x, summed in zip(again, is_summed, strict=True)
            ]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(again)
                outputs = function(*_replace_floats(tensors, again))
            unconnected = tf.UnconnectedGradients.ZERO
            gradients = tape.gradient(
                outputs, again, upstream, unconnected_gradients=unconnected
            )
            # Terms are stored as narrow as the output is, and summed in float32.
            gradients = [
                sum_rows(*barrier(tf.cast(g, tensors[0].dtype))) if summed else g
                for g, summed in zip(gradients, is_summed, strict=True)
            ]
            return _replace_floats(
                [x if x.dtype.is_floating else None for x in tensors], gradients
            )

        return function(*_replace_floats(tensors, barrier(*floats))), gradient

    return call


def _replace_floats(
    tensors: Sequence[tf.Tensor | None], floats: Sequence[tf.Tensor]
) -> list[tf.Tensor | None]:
    """Returns the tensors, with those of a float dtype replaced in order."""
    remaining = iter(floats)
    return [next(remaining) if x is not None and x.dtype.is_floating else x for x in tensors]


def _is_vector(x: tf.Tensor) -> bool:
    return x.dtype.is_floating and x.shape.rank == 1


def sum_rows(x: tf.Tensor) -> tf.Tensor:
    """Returns the float32 sum [width] of `x` [..., width] over all axes but the last."""
    if is_compiled_as_a_whole():
        return tf.reduce_sum(tf.cast(x, tf.float32), axis=list(range(x.shape.rank - 1)))
    if x.dtype == tf.float32:
        return _sum_rows_in_float32(x)
    # XLA on CPU sums narrow types element by element; a product is several times faster.
    flat = tf.reshape(tf.cast(x, tf.float32), [-1, x.shape[-1]])
    return tf.matmul(tf.ones([1, tf.shape(flat)[0]]), flat)[0]


@compiled_by_xla
def _sum_rows_in_float32(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x, axis=list(range(x.shape.rank - 1)))


class CastKernels:
    """Low-precision copies of kernels, read by graphs traced within the `with` block.

    Args:
        layers: layers with a float32 `kernel` and a `compute_dtype`; those that compute in
            float32 are skipped.
    """

    def __init__(self, layers: Iterable[keras.layers.Layer]) -> None:
        self._layers = [layer for layer in layers if layer.compute_dtype != "float32"]
        self._copies = {
            id(layer): tf.Variable(tf.cast(layer.kernel, layer.compute_dtype), trainable=False)
            for layer in self._layers
        }
        self._tokens: list[contextvars.Token] = []

    def refresh(self) -> None:
        """Copies the current weights."""
        for layer in self._layers:
            self._copies[id(layer)].assign(tf.cast(layer.kernel, layer.compute_dtype))

    def __enter__(self) -> "CastKernels":
        self._tokens.append(_active.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        _active.reset(self._tokens.pop())

    def find(self, layer: keras.layers.Layer) -> tf.Variable | None:
        """Returns the copy of a layer's kernel, or None."""
        return self._copies.get(id(layer))


def cast_kernel(layer: keras.layers.Layer) -> tf.Tensor:
    """Returns the kernel of a layer in its compute dtype, from `CastKernels` if active."""
    active = _active.get()
    copy = active.find(layer) if active is not None else None
    if copy is not None:
        return tf.convert_to_tensor(copy)
    return tf.cast(layer.kernel, layer.compute_dtype)
