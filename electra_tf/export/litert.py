"""LiteRT (TensorFlow Lite): models for phones and small devices, ids in and numbers out.

Strings and tokenizing stay outside: the files are the graph of `Servable.predict`, the
vocabulary, and `description.json` with what a client has to know.
"""

import json
import pathlib
import tempfile

import tensorflow as tf

from electra_tf.checkpoints import VOCAB_FILE
from electra_tf.export.saved_model import save_signatures
from electra_tf.export.servable import TEXT_SIGNATURE, Servable
from electra_tf.text_inputs import TextInputs
from pretrain_data.quiet import no_native_messages

FLOAT32_FILE, INT8_FILE = "model_float32.tflite", "model_int8.tflite"
DESCRIPTION_FILE = "description.json"


def write_litert(servable: Servable, directory: pathlib.Path) -> None:
    """Writes the model in float32, and with int8 weights.

    The latter is dynamic-range quantization: kernels are int8, a scale for each output
    channel, and activations are quantized where the device is faster for it. Inputs are
    int32 [batch, seq] of any batch size and any length up to the model's.

    Args:
        servable: the model, in float32.
        directory: exists.
    """
    function = trace_predict(servable)
    with tempfile.TemporaryDirectory() as folder, no_native_messages():
        save_signatures({TEXT_SIGNATURE: function}, pathlib.Path(folder))
        for name, optimizations in (
            (FLOAT32_FILE, []),
            (INT8_FILE, [tf.lite.Optimize.DEFAULT]),
        ):
            converter = tf.lite.TFLiteConverter.from_saved_model(folder)
            converter.optimizations = optimizations
            (directory / name).write_bytes(converter.convert())
    write_description(servable, function, directory)


def trace_predict(servable: Servable) -> tf.types.experimental.ConcreteFunction:
    """Returns the graph of `Servable.predict`, of int32 [batch, seq] inputs by their names."""

    def predict(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return servable.predict(TextInputs(**features))

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in TextInputs._fields}
    with servable.tracing():
        return tf.function(predict, autograph=False).get_concrete_function(**specs)


def write_description(
    servable: Servable,
    function: tf.types.experimental.ConcreteFunction,
    directory: pathlib.Path,
) -> None:
    """Writes `vocab.txt`, and `description.json`: settings, inputs and outputs."""
    tensors = {
        "inputs": function.structured_input_signature[1],
        "outputs": function.structured_outputs,
    }
    described = {
        kind: {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in specs.items()
        }
        for kind, specs in tensors.items()
    }
    content = json.dumps({**servable.metadata, **described}, indent=2, ensure_ascii=False)
    (directory / DESCRIPTION_FILE).write_text(content + "\n", encoding="utf-8")
    vocabulary = "".join(f"{token}\n" for token in servable.vocabulary.tokens)
    (directory / VOCAB_FILE).write_text(vocabulary, encoding="utf-8")
