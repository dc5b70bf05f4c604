"""Encoder sizes, as a frozen dataclass; imports no TensorFlow."""

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

from electra_tf.config.hyperparameters import FLOAT_LIMIT, SIZE_LIMIT, VALUE_KINDS
from electra_tf.util.errors import UserError, nearest_name_hint

# Hidden size and number of layers of the published models (paper, Table 6).
MODEL_SIZES = {"small": (256, 12), "base": (768, 12), "large": (1024, 24)}
# Every published discriminator and generator has hidden_size / 64 attention heads and an
# intermediate size of 4 * hidden_size.
HEAD_SIZE = 64
INTERMEDIATE_RATIO = 4
SMALL_EMBEDDING_SIZE = 128
# The authors' model in debug mode, whatever the model size.
DEBUG_SHAPE = {
    "num_hidden_layers": 3,
    "hidden_size": 144,
    "num_attention_heads": 4,
    "intermediate_size": 576,
}
# The hidden size, and the fields that are derived from it by default.
WIDTH_FIELDS = ("hidden_size", "num_attention_heads", "intermediate_size")
# Key in the settings of a checkpoint: its path, if it does not record its attention heads.
UNRECORDED_HEADS = "unrecorded_heads"
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "tanh", "linear")
GELUS = frozenset({"gelu", "gelu_tanh"})
# Fields that change what an encoder computes, but not the shapes of its variables.
NOT_IN_SHAPES = ("hidden_act", "layer_norm_epsilon", "num_attention_heads")
_DROPOUT_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
# Accepted types of values, by the type of the field.
_VALUE_TYPES = {int: numbers.Integral, float: numbers.Real, str: str}


class _HeadsError(UserError):
    """The width of an encoder is not a multiple of its heads."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Shape of one Transformer encoder, under the names of the authors' BertConfig.

    If `embedding_size` differs from `hidden_size`, as in ELECTRA-small, a linear projection
    follows the embeddings.
    """

    vocab_size: int = 30522
    embedding_size: int = 768
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_epsilon: float = 1e-12

    @property
    def has_dropout(self) -> bool:
        """Whether the encoder draws random numbers in training."""
        return any(getattr(self, name) for name in _DROPOUT_RATES)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden_act", _normalize_activation(self.hidden_act))
        for name in _DROPOUT_RATES:
            if getattr(self, name) is None:  # as in the authors' code
                object.__setattr__(self, name, 0.0)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            _check_value(field.name, field.type, value)
            if field.type is int and not 1 <= value < SIZE_LIMIT:
                limit = "at least 1" if value < 1 else f"less than {SIZE_LIMIT}"
                raise UserError(f"{field.name} must be {limit}, not {value:.6g}")
            if field.type is float and not 0 <= value < FLOAT_LIMIT:
                raise UserError(f"{field.name} must be at least 0 and finite, not {value}")
        if self.hidden_size % self.num_attention_heads:
            raise _HeadsError(
                f"hidden_size ({self.hidden_size}) is not a multiple of num_attention_heads "
                f"({self.num_attention_heads})"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise UserError(
                f"hidden_act must be one of {', '.join(ACTIVATIONS)}, not {self.hidden_act!r}"
            )
        for name in _DROPOUT_RATES:
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} must be in [0, 1), not {getattr(self, name)}")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


def _check_value(name: str, kind: type, value: Any) -> None:
    """Raises UserError unless the value of a field is of its type."""
    if isinstance(value, bool) or not isinstance(value, _VALUE_TYPES[kind]):
        raise UserError(f"{name} must be {VALUE_KINDS[kind]}, not {value!r}")


# Allowed in `model_hparam_overrides`: the fields of the authors' BertConfig, and the
# LayerNorm epsilon, a constant there that other frameworks set differently.
OVERRIDABLE = tuple(
    field.name for field in dataclasses.fields(EncoderConfig) if field.name != "embedding_size"
)


def encoder_shape(hidden_size: int, num_hidden_layers: int) -> dict[str, int]:
    """Returns the fields of an encoder that depend on its width and depth."""
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": max(1, hidden_size // HEAD_SIZE),
        "intermediate_size": INTERMEDIATE_RATIO * hidden_size,
    }


def encoder_config(
    model_size: str,
    model_hparam_overrides: Mapping[str, Any],
    *,
    embedding_size: int,
    vocab_size: int,
) -> EncoderConfig:
    """Returns the shape of a model size, with overrides applied.

    As in the authors' code, attention heads and intermediate size are derived from the hidden
    size, which may be overridden, unless they are overridden themselves.

    Raises:
        UserError: an override is not a field of the encoder, or its value is invalid.
    """
    overrides = dict(model_hparam_overrides)
    for name in overrides:
        if name == "embedding_size":
            raise UserError(
                "embedding_size cannot be set in --model_hparam_overrides: pass "
                "--embedding_size"
            )
        if name not in OVERRIDABLE:
            raise UserError(
                f"Unknown key {name!r} in --model_hparam_overrides."
                + nearest_name_hint(name, OVERRIDABLE)
            )
    overrides.setdefault("vocab_size", vocab_size)
    if overrides["vocab_size"] != vocab_size:
        raise UserError(
            f"--vocab_size={vocab_size} contradicts vocab_size {overrides['vocab_size']} in "
            "--model_hparam_overrides"
        )
    hidden_size, layers = MODEL_SIZES[model_size]
    hidden_size = overrides.get("hidden_size", hidden_size)
    _check_value("hidden_size", int, hidden_size)  # other fields are derived from it
    shape = encoder_shape(hidden_size, layers)
    try:
        return EncoderConfig(embedding_size=embedding_size, **{**shape, **overrides})
    except _HeadsError as error:
        hint = "change one of them in --model_hparam_overrides"
        raise UserError(f"{error}: {hint}") from error


def _normalize_activation(name: Any) -> Any:
    """Returns the name of an activation; accepts capitals and null, as the authors' code."""
    if name is None or name == "":
        return "linear"
    return name.lower() if isinstance(name, str) else name


def debug_overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the authors' tiny model of debug mode, as overrides; given ones win."""
    debug = {**DEBUG_SHAPE, **given}
    if "hidden_size" in given:  # the other width fields are derived from it
        debug = {
            name: v for name, v in debug.items() if name in given or name not in WIDTH_FIELDS
        }
    return debug


def default_embedding_size(model_size: str, model_hparam_overrides: Mapping[str, Any]) -> int:
    """Returns the embedding size of a model size: 128 for small, else the hidden size."""
    hidden_size = model_hparam_overrides.get("hidden_size", MODEL_SIZES[model_size][0])
    return SMALL_EMBEDDING_SIZE if model_size == "small" else hidden_size


def encoder_settings(given: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model size, overrides and embedding size, as given or as in the checkpoint.

    The checkpoint's overrides and embedding size apply only to its own model size; fields that
    are derived from the hidden size, only to its own hidden size.

    Raises:
        UserError: the model size is unknown, or the checkpoint does not record the number of
            attention heads and nothing given determines it.
    """
    size = given.get("model_size") or saved.get("model_size") or "small"
    if size not in MODEL_SIZES:
        raise UserError(f"--model_size must be one of {', '.join(MODEL_SIZES)}, not {size!r}")
    saved = saved if size == saved.get("model_size") else {}
    kept = dict(saved.get("model_hparam_overrides") or {})
    new = given.get("model_hparam_overrides") or {}
    width = kept.get("hidden_size", MODEL_SIZES[size][0])
    sets_heads = given.get("model_size") or {"hidden_size", "num_attention_heads"} & new.keys()
    if UNRECORDED_HEADS in saved and not sets_heads:
        raise UserError(
            f"{saved[UNRECORDED_HEADS]} does not record its number of attention heads, and its "
            "size is not one of the published sizes: pass --model_hparam_overrides="
            "'{\"num_attention_heads\": N}'. The authors' default is one head per "
            f"{HEAD_SIZE} units, here {encoder_shape(width, 1)['num_attention_heads']}"
        )
    if new.get("hidden_size", width) != width:
        saved = {}
        kept = {name: value for name, value in kept.items() if name not in WIDTH_FIELDS}
    overrides = {**kept, **new}
    return {
        "model_size": size,
        "model_hparam_overrides": overrides,
        "embedding_size": given_embedding_size(given, size, overrides)
        or saved.get("embedding_size")
        or default_embedding_size(size, overrides),
    }


def given_embedding_size(
    given: Mapping[str, Any], model_size: str, overrides: Mapping[str, Any]
) -> int | None:
    """Returns the given embedding size, where 0 is the hidden size; None if none is given."""
    if given.get("embedding_size") == 0:
        return overrides.get("hidden_size", MODEL_SIZES[model_size][0])
    return given.get("embedding_size")
