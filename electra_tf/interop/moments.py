"""The optimizer's moments in checkpoints, by the authors' names of their variables.

They are found whichever optimizer wrote the checkpoint: Adam or LAMB, with or without loss
scaling.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from electra_tf.interop.model_checkpoint import ADAM_SLOTS, LAMB_SLOTS
from electra_tf.interop.variable_names import NamedVariable
from electra_tf.training.learning_rate import WarmupPolynomialDecay
from electra_tf.training.optimizer import make_optimizer
from electra_tf.util.plain_paths import plain_path

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_OPTIMIZER_KEYS = "optimizer/"
# Suffixes of the variables' names in the optimizers of `electra_tf.training.optimizer`.
_SUFFIXES = {
    "adam_m": ADAM_SLOTS[0],
    "adam_v": ADAM_SLOTS[1],
    "momentum": LAMB_SLOTS[0],
    "velocity": LAMB_SLOTS[1],
}


def saved_moments(prefix: str, mapping: Iterable[NamedVariable]) -> dict[str, np.ndarray]:
    """Returns the moments in a checkpoint of this project; empty if it has none.

    Args:
        prefix: a whole checkpoint.
        mapping: the model's variables and their names.

    Returns:
        Arrays by the authors' names of the variables and one of `ADAM_SLOTS` or `LAMB_SLOTS`.
    """
    with plain_path(prefix) as readable:
        return _moments(tf.train.load_checkpoint(readable), mapping)


def _moments(reader: Any, mapping: Iterable[NamedVariable]) -> dict[str, np.ndarray]:
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
    keys = {
        attribute.full_name.rpartition("/")[2]: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key.startswith(_OPTIMIZER_KEYS)
    }
    moments = {}
    for entry in mapping:
        for suffix, slot in _SUFFIXES.items():
            key = keys.get(_slot_name(entry.variable, suffix))
            if key is not None:
                parts = entry.split(reader.get_tensor(key))
                moments |= {f"{name}{slot}": value for name, value in parts.items()}
    return moments


def optimizer_for(
    variables: Sequence[keras.Variable], slots: Mapping[str, np.ndarray], precision: str
) -> keras.optimizers.Optimizer:
    """Returns a built optimizer of the kind that moments belong to, as in training.

    Args:
        variables: trained variables of the model.
        slots: moments by name.
        precision: precision of the run; see `electra_tf.training.optimizer.make_optimizer`.
    """
    is_lamb = any(name.endswith(LAMB_SLOTS) for name in slots)
    optimizer = make_optimizer(
        "lamb" if is_lamb else "adam",
        WarmupPolynomialDecay(0.0, 1),
        weight_decay_rate=0.0,
        precision=precision,
    )
    optimizer.build(variables)
    return optimizer


def slot_variables(
    mapping: Iterable[NamedVariable], optimizer: keras.optimizers.Optimizer
) -> list[NamedVariable]:
    """Returns the moments of a built optimizer and their names.

    Args:
        mapping: the model's variables and their names.
        optimizer: result of `optimizer_for`.
    """
    own = {variable.path.rpartition("/")[2]: variable for variable in optimizer.variables}
    return [
        NamedVariable(own[name], tuple(f"{part}{slot}" for part in entry.names))
        for entry in mapping
        for suffix, slot in _SUFFIXES.items()
        if (name := _slot_name(entry.variable, suffix)) in own
    ]


def _slot_name(variable: keras.Variable, suffix: str) -> str:
    return f"{variable.path.replace('/', '_')}_{suffix}"
