"""StableHLO export, for JAX and other machine-learning compilers.

As with LiteRT, the model takes ids. StableHLO has static shapes, so there is one program for
each of a few shapes; clients pad rows to the next length, and batches to the next size. The
weights are arguments of the programs, which keeps them small and lets them share the weights on
a device.
"""

import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo

from electra_tf.inference.export.saved_model import BATCH_SIZES
from electra_tf.inference.export.servable import (
    Servable,
    ServedOutputs,
    trace_predict,
    write_description,
)
from electra_tf.model.layer_functions import without_erf
from electra_tf.text.text_inputs import EncoderInputs

ConcreteFunction = tf.types.experimental.ConcreteFunction
WEIGHTS_FILE = "weights.npz"
# Oldest release of StableHLO that reads the programs; later ones do, too.
STABLEHLO_VERSION = "1.9.0"
_ALIAS = re.compile(r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>")
# XLA's own operation, in front of the new value of a variable; the portable format has none.
_COPY = re.compile(r"mhlo\.copy (%\S+) : (tensor<[^>]*>)")
# The portable format has no error function: this is a custom call, which only XLA knows.
_ERF = re.compile(r"mhlo\.erf (%\S+) : (tensor<[^>]*>)")
_CALL_OF_ERF = (
    r"stablehlo.custom_call @mhlo.erf(\1) {mhlo.attributes = {}, mhlo.version = 1 : i64}"
    r" : (\2) -> \2"
)


class LoweredFunction(NamedTuple):
    """A function as a program of StableHLO.

    Attributes:
        code: portable artifact.
        variables: arguments of the program after the function's inputs, in order.
        aliases: index of each output that is the new value of a variable, to the index of the
            argument whose memory it takes. These outputs follow the function's own.
    """

    code: bytes
    variables: list[tf.Variable]
    aliases: dict[int, int]


def write_stablehlo(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Writes portable artifacts of `Servable.predict`, and the weights.

    A program takes int32 [batch, length] `input_ids`, `input_mask` and `segment_ids`, then the
    arrays of `weights.npz` in the order of the file. It returns the outputs in the order of
    "results" in `description.json`, which also lists the programs with their shapes: batches
    of 1 and 8, of the maximum length and of a quarter of it.

    Args:
        servable: the model, in float32.
        directory: existing folder.
        model_name: unused.
    """
    del model_name
    programs = []
    weights: dict[str, np.ndarray] = {}
    for batch in BATCH_SIZES:
        for length in (servable.max_seq_length // 4, servable.max_seq_length):
            file = f"predict_{batch}x{length}.stablehlo"
            lowered = _lower_predict(servable, batch, length)
            (directory / file).write_bytes(lowered.code)
            programs.append({"file": file, "batch": batch, "length": length})
            names = [variable.name.partition(":")[0] for variable in lowered.variables]
            if len(set(names)) < len(names) or (weights and names != list(weights)):
                raise RuntimeError(f"The programs do not take the same weights: {names}")
            weights = dict(zip(names, lowered.variables, strict=True))
    arrays = {name: variable.numpy() for name, variable in weights.items()}
    np.savez(directory / WEIGHTS_FILE, **arrays)
    function = trace_predict(servable)
    # A dictionary's outputs are sorted by name.
    results = sorted(function.structured_outputs)
    more = {"programs": programs, "weights": WEIGHTS_FILE, "results": results}
    write_description(servable, function, directory, more)


def _lower_predict(servable: Servable, batch: int, length: int) -> LoweredFunction:
    def predict(*ids: tf.Tensor) -> ServedOutputs:
        return servable.predict(EncoderInputs(*ids))

    shape = [batch, length]
    specs = [tf.TensorSpec(shape, tf.int32, name) for name in EncoderInputs._fields]
    with servable.tracing(), without_erf():
        return lower_function(tf.function(predict, autograph=False, jit_compile=True), *specs)


def lower_function(function: Callable, *inputs: tf.TensorSpec) -> LoweredFunction:
    """Lowers a `tf.function` with `jit_compile=True`.

    Args:
        function: the function.
        *inputs: its inputs, with static shapes.
    """
    concrete = function.get_concrete_function(*inputs)
    ir = function.experimental_get_compiler_ir(*inputs)
    text = ir(stage="stablehlo", platform_name="CPU")
    portable = _COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text)
    portable = _ERF.sub(_CALL_OF_ERF, portable)
    return LoweredFunction(
        code=stablehlo.serialize_portable_artifact_str(portable, STABLEHLO_VERSION),
        variables=_captured_variables(concrete),
        aliases={int(output): int(argument) for argument, output in _ALIAS.findall(text)},
    )


def _captured_variables(concrete: ConcreteFunction) -> list[tf.Variable]:
    variables = {id(variable.handle): variable for variable in concrete.variables}
    return [variables[id(tensor)] for tensor in concrete.captured_inputs]
