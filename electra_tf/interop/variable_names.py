"""Mapping between our variables and the names of the authors' TensorFlow 1 code.

One table serves both directions: each of our variables is one of theirs or, for the fused
query, key and value kernel, the concatenation of three.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import keras
import numpy as np

from electra_tf.model.embeddings import DisentangledEmbeddings, Embeddings
from electra_tf.model.encoder import Encoder
from electra_tf.model.heads import DiscriminatorHead, MaskedLMHead
from electra_tf.model.layers import LayerNorm, Linear, TransformerLayer
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError

ENCODER_NAME, GENERATOR_NAME = "electra", "generator"
# The generator's encoders: one, or two towers.
GENERATOR_NAMES = (GENERATOR_NAME, f"{GENERATOR_NAME}_ltr", f"{GENERATOR_NAME}_rtl")
# Order of the parts along the last axis of our fused kernel.
QKV = ("query", "key", "value")
_NAMES_SHOWN = 8


class NamedVariable(NamedTuple):
    """One of our variables, and the authors' names of its parts along the last axis.

    If `base` is set, theirs is the sum of both variables, and ours the difference.
    """

    variable: keras.Variable
    names: tuple[str, ...]
    base: keras.Variable | None = None

    @property
    def part_shape(self) -> tuple[int, ...]:
        """Shape of each of the authors' variables."""
        shape = tuple(self.variable.shape)
        return (*shape[:-1], shape[-1] // len(self.names))

    def value(self) -> np.ndarray:
        """Returns the concatenated value of the authors' variables."""
        value = self.variable.numpy()
        return value if self.base is None else value + self.base.numpy()

    def assign(self, parts: list[np.ndarray]) -> None:
        """Assigns our variable from theirs; the base must be assigned before."""
        value = self.join(parts)
        self.variable.assign(value if self.base is None else value - self.base.numpy())

    def join(self, parts: list[np.ndarray]) -> np.ndarray:
        """Returns our value from theirs, in the order of `names`."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def split(self, value: np.ndarray) -> dict[str, np.ndarray]:
        """Returns their values by name from ours (or from a gradient)."""
        parts = np.split(np.asarray(value), len(self.names), axis=-1)
        return dict(zip(self.names, parts, strict=True))


class LoadReport(NamedTuple):
    """Names of the authors' variables: loaded, missing in the checkpoint, and unused."""

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns one line for each of the three, with the first few names."""
        return [
            f"{kind:9}{len(names):4}  {_shortened(names)}"
            for kind, names in zip(("matched", "missing", "unused"), self, strict=True)
        ]


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown + (", …" if len(names) > _NAMES_SHOWN else "")


def named_variables(model: PretrainingModel | Encoder) -> list[NamedVariable]:
    """Returns the mapping of all variables of a model, or of one encoder.

    A single encoder has the discriminator's names; see `encoder_variables` for others.
    """
    if isinstance(model, Encoder):
        return encoder_variables(model)
    mapping: list[NamedVariable] = []
    if isinstance(model.electra.embeddings, DisentangledEmbeddings):
        # Differences can be assigned once their base is.
        mapping += encoder_variables(model.generator, GENERATOR_NAME)
    mapping += encoder_variables(model.electra)
    if model.generator is not None:
        mapping += encoder_variables(model.generator, GENERATOR_NAME)
        mapping += masked_lm_head_variables(
            model.generator_predictions, "generator_predictions"
        )
    if model.two_tower is not None:
        towers = model.two_tower.ltr, model.two_tower.rtl
        for tower, scope in zip(towers, GENERATOR_NAMES[1:], strict=True):
            mapping += encoder_variables(tower, scope)
        mapping += masked_lm_head_variables(model.two_tower.head, "cloze_predictions")
    if model.has_discriminator:
        mapping += discriminator_head_variables(
            model.discriminator_predictions, "discriminator_predictions"
        )
    # Shared variables have the name of their first occurrence; variables that the authors' code
    # does not have keep their names.
    first = {id(entry.variable): entry for entry in reversed(mapping)}
    own = [
        NamedVariable(variable, (variable.path,))
        for variable in model.variables
        if id(variable) not in first
    ]
    return [entry for entry in mapping if first[id(entry.variable)] is entry] + own


def encoder_variables(
    encoder: Encoder, scope: str = ENCODER_NAME, *, embeddings: bool = True
) -> list[NamedVariable]:
    """Returns the mapping of an encoder's variables.

    Args:
        encoder: an encoder of any shape.
        scope: prefix of the authors' names.
        embeddings: False omits the embeddings, if they belong to another scope.
    """
    mapping = _embeddings(encoder.embeddings, f"{scope}/embeddings") if embeddings else []
    if encoder.embeddings_project is not None:
        mapping += _linear(encoder.embeddings_project, f"{scope}/embeddings_project")
    for i, layer in enumerate(encoder.encoder_layers):
        mapping += _transformer_layer(layer, f"{scope}/encoder/layer_{i}")
    return mapping


def _embeddings(
    embeddings: Embeddings | DisentangledEmbeddings, scope: str
) -> list[NamedVariable]:
    if isinstance(embeddings, DisentangledEmbeddings):
        base = embeddings.base
        differences = {
            "word_embeddings": embeddings.word_difference,
            "position_embeddings": embeddings.position_difference,
            "token_type_embeddings": embeddings.token_type_difference,
        }
        return [
            NamedVariable(difference, (f"{scope}/{name}",), getattr(base, name))
            for name, difference in differences.items()
        ] + _layer_norm(embeddings.norm, f"{scope}/LayerNorm")
    return [
        NamedVariable(embeddings.word_embeddings, (f"{scope}/word_embeddings",)),
        NamedVariable(embeddings.position_embeddings, (f"{scope}/position_embeddings",)),
        NamedVariable(embeddings.token_type_embeddings, (f"{scope}/token_type_embeddings",)),
        *_layer_norm(embeddings.norm, f"{scope}/LayerNorm"),
    ]


def _transformer_layer(layer: TransformerLayer, scope: str) -> list[NamedVariable]:
    attention = f"{scope}/attention"
    return [
        *_linear(layer.qkv, *(f"{attention}/self/{part}" for part in QKV)),
        *_linear(layer.attention_output, f"{attention}/output/dense"),
        *_layer_norm(layer.attention_norm, f"{attention}/output/LayerNorm"),
        *_linear(layer.intermediate, f"{scope}/intermediate/dense"),
        *_linear(layer.output_projection, f"{scope}/output/dense"),
        *_layer_norm(layer.output_norm, f"{scope}/output/LayerNorm"),
    ]


def masked_lm_head_variables(head: MaskedLMHead, scope: str) -> list[NamedVariable]:
    """Returns the mapping of a masked-LM head's variables, whose names start with `scope`."""
    return [
        *_linear(head.dense, f"{scope}/dense"),
        *_layer_norm(head.norm, f"{scope}/LayerNorm"),
        NamedVariable(head.output_bias, (f"{scope}/output_bias",)),
    ]


def discriminator_head_variables(head: DiscriminatorHead, scope: str) -> list[NamedVariable]:
    """Returns the mapping of a discriminator head's variables; names start with `scope`."""
    return _linear(head.dense, f"{scope}/dense") + _linear(head.dense_1, f"{scope}/dense_1")


def names_in(mapping: Iterable[NamedVariable]) -> list[str]:
    """Returns the authors' names of all variables of a mapping, in its order."""
    return [name for entry in mapping for name in entry.names]


def _linear(layer: Linear, *scopes: str) -> list[NamedVariable]:
    return [
        NamedVariable(layer.kernel, tuple(f"{scope}/kernel" for scope in scopes)),
        NamedVariable(layer.bias, tuple(f"{scope}/bias" for scope in scopes)),
    ]


def _layer_norm(layer: LayerNorm, scope: str) -> list[NamedVariable]:
    return [
        NamedVariable(layer.gamma, (f"{scope}/gamma",)),
        NamedVariable(layer.beta, (f"{scope}/beta",)),
    ]


def assign_arrays(
    arrays: Mapping[str, np.ndarray],
    mapping: Iterable[NamedVariable],
    source: str,
    required: Collection[str],
) -> LoadReport:
    """Assigns arrays to the variables of `mapping`: all, or none if any does not fit.

    Args:
        arrays: arrays by the authors' names.
        mapping: mapping of the variables.
        source: source of the arrays, for messages.
        required: names that must be among `arrays`.

    Raises:
        UserError: a required array is missing, or a shape differs; the message lists them.
    """
    mapping = list(mapping)
    check_arrays(arrays, mapping, source, required)
    names = names_in(mapping)
    for entry in mapping:
        if all(name in arrays for name in entry.names):
            entry.assign([arrays[name] for name in entry.names])
    return LoadReport(
        matched=tuple(name for name in names if name in arrays),
        missing=tuple(name for name in names if name not in arrays),
        unused=tuple(sorted(set(arrays) - set(names))),
    )


def check_arrays(
    arrays: Mapping[str, np.ndarray],
    mapping: Iterable[NamedVariable],
    source: str,
    required: Collection[str] | None = None,
    *,
    compare: str = "--model_size, --model_hparam_overrides, --embedding_size, --vocab_size and "
    "--generator_hidden_size",
) -> None:
    """Checks arrays as `assign_arrays` does, with the same arguments.

    Args:
        compare: what sets the shapes of the model, for the message.

    Raises:
        UserError: a required array (by default, any) is missing, or a shape differs.
    """
    shapes = {name: entry.part_shape for entry in mapping for name in entry.names}
    wrong = [
        f"{name} is {arrays[name].shape} in the checkpoint and {shape} in the model"
        for name, shape in shapes.items()
        if name in arrays and arrays[name].shape != shape
    ]
    if wrong:
        raise UserError(
            f"The shapes of the checkpoint {source} differ from those of the model; compare "
            f"{compare}. Differing variables:\n  " + "\n  ".join(wrong)
        )
    required = set(shapes if required is None else required)
    lacking = [name for name in shapes if name in required and name not in arrays]
    if lacking:
        raise UserError(
            f"The checkpoint {source} lacks {len(lacking)} variables of the model:\n  "
            + "\n  ".join(lacking)
        )


def variable_arrays(mapping: Iterable[NamedVariable]) -> dict[str, np.ndarray]:
    """Returns the values of variables by the authors' names."""
    return {
        name: value for entry in mapping for name, value in entry.split(entry.value()).items()
    }
