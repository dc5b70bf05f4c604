"""ONNX export.

As with LiteRT, the model takes ids. tf2onnx converts the graph; it lacks a mapping for `Erfc`,
which TensorFlow's exact GELU uses, so this module provides it.
"""

import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.servable import Servable, trace_predict, write_description
from electra_tf.util.tensorflow_import import suppress_native_stderr

ONNX_FILE = "model.onnx"
_OPSET = 18


def write_onnx(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Writes the model in float32; inputs are int32 [batch, seq] of any size.

    Args:
        servable: the model, in float32.
        directory: existing directory.
        model_name: unused.
    """
    del model_name
    # Imported here, because they are optional dependencies.
    import onnx
    import tf2onnx

    concrete = trace_predict(servable)
    specs = list(concrete.structured_input_signature[1].values())
    function = tf.function(
        lambda *ids: concrete(**{s.name: x for s, x in zip(specs, ids, strict=True)}),
        autograph=False,
    )
    with suppress_native_stderr():
        model, _ = tf2onnx.convert.from_function(
            function,
            input_signature=specs,
            opset=_OPSET,
            custom_op_handlers={"Erfc": (_convert_erfc, [])},
        )
    onnx.checker.check_model(model)  # tf2onnx skips what it cannot convert
    (directory / ONNX_FILE).write_bytes(model.SerializeToString())
    write_description(servable, concrete, directory)


def _convert_erfc(context: Any, node: Any, name: str, arguments: Any) -> Any:
    """Converts erfc(x) to 1 - erf(x)."""
    one = context.make_const(f"{name}/one", np.array(1, np.float32))
    erf = context.make_node("Erf", node.input, name=f"{name}/erf")
    output, shape = node.output[0], context.get_shape(node.output[0])
    dtype = context.get_dtype(output)
    context.remove_node(name)
    return context.make_node(
        "Sub",
        [one.output[0], erf.output[0]],
        name=name,
        outputs=[output],
        shapes=[shape],
        dtypes=[dtype],
    )
