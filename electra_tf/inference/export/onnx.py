"""ONNX export, of a graph that tf2onnx converts. As with LiteRT, the model takes ids."""

import pathlib
from typing import Any

import tensorflow as tf

from electra_tf.inference.export.onnx_operators import convert_erf, fuse_layer_norms
from electra_tf.inference.export.servable import (
    Servable,
    check_constants,
    trace_predict,
    write_description,
)
from electra_tf.util.tensorflow_import import suppress_native_stderr

FLOAT32_FILE, INT8_FILE = "model.onnx", "model_int8.onnx"
_OPSET = 18
# Products with a smaller side, such as those of classifiers, stay in float32: quantizing them
# saves nothing.
_MIN_INT8_SIZE = 32


def write_onnx(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Writes the model in float32, and with int8 weights.

    The latter is ONNX Runtime's dynamic quantization: kernels are int8 with a scale per output
    channel, tables of embeddings uint8 with one scale, and the activations that enter a product
    are quantized at runtime. The products of classifiers stay in float32. Inputs are int32
    [batch, seq] of any size, with at least one row.

    Args:
        servable: the model, in float32.
        directory: existing folder.
        model_name: unused.
    """
    del model_name
    # Imported here, because they are optional dependencies.
    import onnx
    import tf2onnx
    from onnxruntime import quantization

    concrete = trace_predict(servable)
    check_constants(concrete, "onnx")
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
            custom_op_handlers={"Erf": (convert_erf, [])},
            custom_rewriter=[fuse_layer_norms],
        )
    onnx.checker.check_model(model)  # tf2onnx skips what it cannot convert
    (directory / FLOAT32_FILE).write_bytes(model.SerializeToString())
    with suppress_native_stderr():  # it advises to optimize the graph first, as runtimes do
        quantization.quantize_dynamic(
            directory / FLOAT32_FILE,
            directory / INT8_FILE,
            per_channel=True,
            # Kernels of 7 bits: CPUs with AVX2 or AVX-512 but without VNNI add two products of
            # an activation (at most 255) and a weight in 16 bits, which would saturate.
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=_small_products(model),
        )
    write_description(servable, concrete, directory)


def _small_products(model: Any) -> list[str]:
    """Returns the names of the products whose kernel has a small side."""
    shapes = {weight.name: list(weight.dims) for weight in model.graph.initializer}
    return [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul"
        and min(shapes.get(node.input[1], [_MIN_INT8_SIZE])) < _MIN_INT8_SIZE
    ]
