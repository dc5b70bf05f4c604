"""Loads checkpoints of the authors' code into models, to compare both."""

import os
from collections.abc import Iterable

from electra_tf.interop.tf1_format import read_tf1_arrays
from electra_tf.interop.variable_names import (
    LoadReport,
    NamedVariable,
    assign_arrays,
    named_variables,
    names_in,
)
from electra_tf.model.encoder import Encoder
from electra_tf.pretraining_model import PretrainingModel


def load_tf1_checkpoint(
    path: str | os.PathLike,
    model: PretrainingModel | Encoder,
    *,
    require_all: bool = True,
) -> LoadReport:
    """Loads a checkpoint of the authors' code into a model.

    Nothing is assigned unless everything fits.

    Args:
        path: prefix of the checkpoint (`model.ckpt-1000000`), its `.index` file, or a folder
            with a `checkpoint` file, which names the latest.
        model: a pre-training model, or an encoder, which gets the discriminator's weights.
        require_all: False keeps variables that the checkpoint lacks.

    Returns:
        The names of the authors' variables that were loaded. Optimizer slots, the step and
        parts that the model does not have are `unused`.

    Raises:
        UserError: there is no checkpoint, a variable is missing, or shapes differ; the message
            lists the variables.
    """
    return load_tf1_variables(path, named_variables(model), require_all=require_all)


def load_tf1_variables(
    path: str | os.PathLike, mapping: Iterable[NamedVariable], *, require_all: bool = True
) -> LoadReport:
    """Loads the variables of `mapping`; see `load_tf1_checkpoint`."""
    mapping = list(mapping)
    names = names_in(mapping)
    arrays = read_tf1_arrays(path)
    return assign_arrays(arrays, mapping, os.fspath(path), names if require_all else ())
