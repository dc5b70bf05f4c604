"""Compares the settings that a run was started with to those that it resumes with.

Every hyperparameter declares what it influences (`hyperparameter(..., influence=...)`). The
encoder is compared by its shape, however it was described. No TensorFlow is imported here.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.config.encoder import EncoderConfig, default_embedding_size, encoder_config
from electra_tf.config.hyperparameters import SYNONYM, TRAINING

_ENCODER_SOURCES = ("model_size", "model_hparam_overrides")
_SHOWN_LENGTH = 60


class Change(NamedTuple):
    """A setting whose recorded value differs from the one given now."""

    name: str
    recorded: Any
    given: Any
    influence: str

    def describe(self) -> str:
        """Returns "name: VALUE before, VALUE now"."""
        recorded, given = (_shortened(value) for value in (self.recorded, self.given))
        return f"{self.name}: {recorded} before, {given} now"


def influences(config_class: type) -> dict[str, str]:
    """Returns what each hyperparameter influences, by name."""
    fields = {
        field.name: field.metadata.get("influence", TRAINING)
        for field in dataclasses.fields(config_class)
        if field.name not in _ENCODER_SOURCES
    }
    encoder = {field.name: TRAINING for field in dataclasses.fields(EncoderConfig)}
    return {name: each for name, each in (encoder | fields).items() if each != SYNONYM}


def comparable_settings(config_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as read from JSON, with the encoder's shape instead of `model_size`.

    Args:
        config_class: dataclass of the hyperparameters.
        values: hyperparameters and other recorded settings, such as digests of data.
    """
    known = {field.name for field in dataclasses.fields(config_class)}
    ignored = {*known - influences(config_class).keys(), *_ENCODER_SOURCES}
    settings = {name: value for name, value in values.items() if name not in ignored}
    if size := values.get("model_size"):
        overrides = values.get("model_hparam_overrides") or {}
        encoder = encoder_config(
            size,
            overrides,
            embedding_size=values.get("embedding_size")
            or default_embedding_size(size, overrides),
            vocab_size=values.get("vocab_size")
            or overrides.get("vocab_size", EncoderConfig.vocab_size),
        )
        settings |= dataclasses.asdict(encoder)
    return json.loads(json.dumps(settings))


def changed_settings(
    config_class: type,
    recorded: Mapping[str, Any],
    given: Mapping[str, Any],
    key_defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Change]:
    """Returns the settings that differ from the record, in alphabetical order.

    A hyperparameter that an older record lacks had its default value; other settings that it
    lacks are unknown, and not compared.

    Args:
        config_class: dataclass of the hyperparameters.
        recorded: settings in a `config.json`.
        given: hyperparameters, and other settings that influence the training.
        key_defaults: default values of the keys of hyperparameters that are JSON objects.
    """
    before = comparable_settings(config_class, recorded)
    now = comparable_settings(config_class, given)
    defaults = {
        field.name: json.loads(json.dumps(field.default))
        for field in dataclasses.fields(config_class)
        if field.default is not None and field.default is not dataclasses.MISSING
    }
    before = {**defaults, **before}
    kinds = influences(config_class)
    return [
        Change(name, before[name], value, kinds.get(name, TRAINING))
        for name, value in sorted(now.items())
        if name in before
        and before[name] != value
        and not _equal_with_defaults(before[name], value, (key_defaults or {}).get(name))
    ]


def _equal_with_defaults(before: Any, now: Any, defaults: Mapping[str, Any] | None) -> bool:
    """Returns whether two JSON objects are equal if keys that they lack have their defaults."""
    return defaults is not None and {**defaults, **(before or {})} == {
        **defaults,
        **(now or {}),
    }


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of settings, in hexadecimal."""
    content = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"
