"""The affine map that heads of fine-tuning tasks are made of."""

import keras
import tensorflow as tf

from electra_tf.interop.variable_names import NamedVariable


class Dense(keras.layers.Layer):
    """`x @ kernel + bias` in float32, whatever the model's precision.

    Heads are small, and their logits decide: float32 costs nothing there.

    Args:
        input_size: last axis of the input.
        units: last axis of the output.
    """

    def __init__(self, input_size: int, units: int, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.kernel = self.add_weight(
            shape=(input_size, units),
            initializer=keras.initializers.GlorotUniform(),
            dtype="float32",
            autocast=False,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(units,), initializer="zeros", dtype="float32", autocast=False, name="bias"
        )
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns float32 [..., units] of `x` [..., input_size] of any float dtype."""
        kernel = tf.convert_to_tensor(self.kernel)
        flat = tf.reshape(tf.cast(x, tf.float32), [-1, kernel.shape[0]])
        y = tf.matmul(flat, kernel) + tf.convert_to_tensor(self.bias)
        y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [kernel.shape[1]]], axis=0))
        y.set_shape(x.shape[:-1].concatenate(kernel.shape[1:]))
        return y

    def tf1_variables(self, scope: str) -> list[NamedVariable]:
        """Returns the mapping to the authors' variables `<scope>/kernel` and `/bias`."""
        return [
            NamedVariable(self.kernel, (f"{scope}/kernel",)),
            NamedVariable(self.bias, (f"{scope}/bias",)),
        ]
