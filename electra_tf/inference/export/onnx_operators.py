"""Parts of the graph that become one ONNX operator, or the form that runtimes fuse into one.

tf2onnx would convert layer normalization operation by operation, and Grappler turns a division
by a constant into a product. Its graphs and nodes have no public types.
"""

import math
from typing import Any

import numpy as np

_ADD = "Add|AddV2"


def fuse_layer_norms(graph: Any, nodes: list[Any]) -> list[Any]:
    """Replaces what `electra_tf.model.layer_functions.normalize` computes by one operator.

    A rewriter of tf2onnx: it gets TensorFlow's operations, as Grappler has ordered them, and
    returns the new list. Where nothing matches, the operations are converted one by one.
    """
    from tf2onnx.graph_matcher import GraphMatcher, OpTypePattern

    x, constant = OpTypePattern("*"), OpTypePattern("Const")
    mean = OpTypePattern("Mean", inputs=[x, constant])
    centered = OpTypePattern("Sub", name="centered", inputs=[x, mean])
    square = OpTypePattern("Square", inputs=[OpTypePattern("Sub", name="squared")])
    variance = OpTypePattern("Mean", inputs=[square, constant])
    epsilon = OpTypePattern("Const", name="epsilon")
    rsqrt = OpTypePattern("Rsqrt", inputs=[OpTypePattern(_ADD, inputs=[variance, epsilon])])
    scale = OpTypePattern("Mul", inputs=[rsqrt, OpTypePattern("*", name="gamma")])
    scaled = OpTypePattern("Mul", inputs=[centered, scale])
    pattern = OpTypePattern(_ADD, name="norm", inputs=[scaled, OpTypePattern("*", name="beta")])
    for match in GraphMatcher(pattern, allow_reorder=True).match_ops(nodes):
        norm, centered_node = match.get_op("norm"), match.get_op("centered")
        if match.get_op("squared") is not centered_node:
            continue
        output = norm.output[0]
        fused = graph.make_node(
            "LayerNormalization",
            [centered_node.input[0], match.get_tensor("gamma"), match.get_tensor("beta")],
            attr={"axis": -1, "epsilon": float(match.get_op("epsilon").get_tensor_value())},
            shapes=[graph.get_shape(output)],
            dtypes=[graph.get_dtype(output)],
        )
        nodes.append(fused)
        graph.replace_all_inputs(output, fused.output[0], ops=nodes)
        graph.safe_remove_nodes([norm])
    return nodes


def convert_erf(graph: Any, node: Any, name: str, arguments: Any) -> None:
    """Converts erf; an argument x * (1 / sqrt(2)) becomes x / sqrt(2).

    This is a part of the exact GELU, which ONNX Runtime fuses only with a division.
    """
    del arguments
    x = _gelu_input(node.inputs[0])
    if x is None:
        return
    divisor = graph.make_const(f"{name}/sqrt_2", np.array(math.sqrt(2), np.float32))
    quotient = graph.make_node("Div", [x, divisor.output[0]], name=f"{name}/quotient")
    graph.replace_input(node, node.input[0], quotient.output[0], 0)


def _gelu_input(node: Any) -> str | None:
    """Returns the `x` of a node that computes x / sqrt(2) as a product; None for others."""
    if node.type != "Mul":
        return None
    for x, factor in (node.input, node.input[::-1]):
        constant = node.graph.get_node_by_output(factor)
        if constant is None or not constant.is_const():
            continue
        value = constant.get_tensor_value(as_list=False)
        if value.size == 1 and math.isclose(value.item(), math.sqrt(0.5), rel_tol=1e-6):
            return x
    return None
