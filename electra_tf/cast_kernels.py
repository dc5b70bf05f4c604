"""Kernels cast to the compute dtype once, instead of in every forward pass.

Training must read the float32 weights at every step. Inference reads the same ones again
and again: in bfloat16, casting the kernels of ELECTRA-small takes as long as the products
of a short batch.
"""

import contextvars
from collections.abc import Iterable

import keras
import tensorflow as tf

_active: contextvars.ContextVar["CastKernels | None"] = contextvars.ContextVar(
    "cast_kernels", default=None
)


class CastKernels:
    """Copies of layers' kernels; graphs traced inside of `with` read them.

    Args:
        layers: have a float32 `kernel` and a `compute_dtype`; those that compute in
            float32 are left alone.
    """

    def __init__(self, layers: Iterable[keras.layers.Layer]) -> None:
        self._layers = [layer for layer in layers if layer.compute_dtype != "float32"]
        self._copies = {
            id(layer): tf.Variable(tf.cast(layer.kernel, layer.compute_dtype), trainable=False)
            for layer in self._layers
        }
        self._tokens: list[contextvars.Token] = []

    def refresh(self) -> None:
        """Takes over the weights as they are now."""
        for layer in self._layers:
            self._copies[id(layer)].assign(tf.cast(layer.kernel, layer.compute_dtype))

    def __enter__(self) -> "CastKernels":
        self._tokens.append(_active.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        _active.reset(self._tokens.pop())

    def find(self, layer: keras.layers.Layer) -> tf.Variable | None:
        """Returns the copy of a layer's kernel, or None if it has none."""
        return self._copies.get(id(layer))


def cast_kernel(layer: keras.layers.Layer) -> tf.Tensor:
    """Returns the kernel of a layer in its compute dtype, a copy of it where there is one."""
    active = _active.get()
    copy = active.find(layer) if active is not None else None
    if copy is not None:
        return tf.convert_to_tensor(copy)
    return tf.cast(layer.kernel, layer.compute_dtype)
