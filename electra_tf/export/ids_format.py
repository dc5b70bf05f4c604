"""What the formats without strings share: ids in, numbers out, and a description beside."""

import json
import pathlib

import tensorflow as tf

from electra_tf.export.servable import Servable
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.training.checkpoints import VOCAB_FILE

DESCRIPTION_FILE = "description.json"

ConcreteFunction = tf.types.experimental.ConcreteFunction


def trace_predict(servable: Servable) -> ConcreteFunction:
    """Returns the graph of `Servable.predict`, of int32 [batch, seq] inputs by their names."""

    def predict(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return servable.predict(EncoderInputs(**features))

    specs = {
        name: tf.TensorSpec([None, None], tf.int32, name) for name in EncoderInputs._fields
    }
    with servable.tracing():
        return tf.function(predict, autograph=False).get_concrete_function(**specs)


def write_description(
    servable: Servable,
    function: ConcreteFunction,
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
