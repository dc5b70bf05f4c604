"""LiteRT (TensorFlow Lite) export, for mobile and embedded devices.

The model takes ids; tokenization is left to the client. The files are the graph of
`Servable.predict`, the vocabulary, and `description.json` with settings for clients.
"""

import pathlib
import tempfile

import tensorflow as tf

from electra_tf.inference.export.saved_model import save_signatures
from electra_tf.inference.export.servable import (
    TEXT_SIGNATURE,
    Servable,
    check_constants,
    trace_predict,
    write_description,
)
from electra_tf.util.plain_paths import plain_path
from electra_tf.util.tensorflow_import import suppress_native_stderr

FLOAT32_FILE, INT8_FILE = "model_float32.tflite", "model_int8.tflite"


def write_litert(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Writes the model in float32, and with int8 weights.

    The latter is dynamic-range quantization: kernels are int8 with a scale per output channel,
    and activations are quantized at runtime where that is faster. Inputs are int32
    [batch, seq] of any batch size and any length up to the maximum.

    Args:
        servable: the model, in float32.
        directory: existing folder.
        model_name: unused.
    """
    del model_name
    function = trace_predict(servable)
    check_constants(function, "litert")
    with tempfile.TemporaryDirectory() as folder, suppress_native_stderr():
        save_signatures({TEXT_SIGNATURE: function}, pathlib.Path(folder))
        for name, optimizations in (
            (FLOAT32_FILE, []),
            (INT8_FILE, [tf.lite.Optimize.DEFAULT]),
        ):
            with plain_path(folder) as path:
                converter = tf.lite.TFLiteConverter.from_saved_model(path)
                converter.optimizations = optimizations
                (directory / name).write_bytes(converter.convert())
    write_description(servable, function, directory)
