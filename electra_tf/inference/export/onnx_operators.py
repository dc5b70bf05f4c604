"""Parts of the graph that become one ONNX operator, or the form that runtimes fuse into one.

tf2onnx would convert layer normalization operation by operation, and has no mapping for `Erfc`,
which TensorFlow's exact GELU uses. Its graphs and nodes have no public types.
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


def convert_erfc(graph: Any, node: Any, name: str, arguments: Any) -> Any:
    """Converts erfc(-x / sqrt(2)) to 1 + erf(x / sqrt(2)), and any other erfc(x) to 1 - erf(x).

    The first is part of the exact GELU, which ONNX Runtime fuses only with a division.
    """
    del arguments

    def constant(suffix: str, value: float) -> str:
        return graph.make_const(f"{name}/{suffix}", np.array(value, np.float32)).output[0]

    one = constant("one", 1.0)
    x = _gelu_input(node.inputs[0])
    if x is None:
        erf = graph.make_node("Erf", node.input, name=f"{name}/erf")
        operator, operands = "Sub", [one, erf.output[0]]
    else:
        quotient = graph.make_node(
            "Div", [x, constant("sqrt_2", math.sqrt(2))], name=f"{name}/quotient"
        )
        erf = graph.make_node("Erf", quotient.output, name=f"{name}/erf")
        operator, operands = "Add", [erf.output[0], one]
    output = node.output[0]
    shape, dtype = graph.get_shape(output), graph.get_dtype(output)
    graph.remove_node(name)
    return graph.make_node(
        operator, operands, name=name, outputs=[output], shapes=[shape], dtypes=[dtype]
    )


def _gelu_input(node: Any) -> str | None:
    """Returns the `x` of a node that computes -x / sqrt(2); None for other nodes."""
    if node.type != "Mul":
        return None
    for negated, factor in (node.inputs, node.inputs[::-1]):
        if negated.type != "Neg" or not factor.is_const():
            continue
        value = factor.get_tensor_value(as_list=False)
        if value.size == 1 and math.isclose(value.item(), math.sqrt(0.5), rel_tol=1e-6):
            return negated.input[0]
    return None
