"""The description of a Hugging Face model folder: everything in it except the weights.

Imports no TensorFlow.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.trained_positions import TRAINED_POSITIONS
from electra_tf.interop.huggingface.tokenizer_files import read_tokenizer
from electra_tf.interop.model_checkpoint import ModelDescription
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json

CONFIG_FILE = "config.json"
MODEL_TYPE = "electra"
# Our activations by theirs; of several for the same one, the first is written.
HF_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Fields with the same name in both.
_SAME = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)
# Defaults of ElectraConfig, which some versions of transformers do not write; those of other
# fields equal the defaults of `EncoderConfig`.
_DEFAULTS = {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}


class HuggingFaceDescription(NamedTuple):
    """Contents of `config.json`, description of the model, and notes on what is lost."""

    config: dict[str, Any]
    description: ModelDescription
    notes: tuple[str, ...]


def is_huggingface_folder(path: str) -> bool:
    """Returns whether a folder is a Hugging Face ELECTRA model."""
    config_file = os.path.join(path, CONFIG_FILE)
    return (
        os.path.isfile(config_file) and read_json(config_file).get("model_type") == MODEL_TYPE
    )


def read_huggingface_description(folder: str) -> HuggingFaceDescription:
    """Reads everything in a folder except the weights.

    Raises:
        UserError: a file cannot be read, or the model is not the authors' encoder.
    """
    path = os.path.join(folder, CONFIG_FILE)
    config = read_json(path)
    encoder = _encoder_config(config, path)
    tokenizer = read_tokenizer(folder, config, encoder.vocab_size)
    description = ModelDescription(
        encoder=encoder,
        do_lower_case=tokenizer.do_lower_case,
        strip_accents=tokenizer.strip_accents,
        vocabulary=tokenizer.vocabulary,
        tokenizer_recorded=tokenizer.is_recorded,
        trained_positions=_trained_positions(config, path),
    )
    notes = (*segment_notes(encoder), *tokenizer.notes)
    return HuggingFaceDescription(config, description, notes)


def segment_notes(encoder: EncoderConfig, program: str = "transformers") -> list[str]:
    """Returns a note if the model has no embedding for segment 1, of second texts and tagging.

    Args:
        encoder: shape of the model's encoder.
        program: name of the other program, for the note.
    """
    if encoder.type_vocab_size > 1:
        return []
    return [
        "type_vocab_size 1: here, tokens of segment 1 (second texts, and those of tagging) get "
        f"no segment embedding; {program} fails for them"
    ]


def _encoder_config(config: Mapping[str, Any], path: str) -> EncoderConfig:
    for name, only in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        if config.get(name) not in (None, only):
            raise UserError(f"{path}: {name} must be {only!r}, not {config[name]!r}")
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in HF_ACTIVATIONS:
        raise UserError(
            f"{path}: hidden_act must be one of {', '.join(HF_ACTIVATIONS)}, not {activation!r}"
        )
    given = {**_DEFAULTS, **{name: config[name] for name in _SAME if name in config}}
    epsilon = config.get("layer_norm_eps", EncoderConfig.layer_norm_epsilon)
    try:
        return EncoderConfig(
            **given, hidden_act=HF_ACTIVATIONS[activation], layer_norm_epsilon=epsilon
        )
    except UserError as error:
        message = str(error).replace("layer_norm_epsilon", "layer_norm_eps")  # its name there
        raise UserError(f"{path}: {message}") from error


def _trained_positions(config: Mapping[str, Any], path: str) -> int | None:
    """Returns the entry that `huggingface_config` writes; None in files of other programs."""
    positions = config.get(TRAINED_POSITIONS)
    if positions is not None and (type(positions) is not int or positions < 1):
        raise UserError(
            f"{path}: {TRAINED_POSITIONS} must be a positive integer, not {positions!r:.80}"
        )
    return positions


def huggingface_config(
    encoder: EncoderConfig,
    architecture: str,
    pad_token_id: int,
    trained_positions: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns the `config.json` of an encoder with the head of `architecture`.

    It has `trained_positions`, which transformers ignores, if that is known.

    Raises:
        UserError: transformers has no such activation.
    """
    activations = {ours: theirs for theirs, ours in reversed(HF_ACTIVATIONS.items())}
    if encoder.hidden_act not in activations:
        raise UserError(
            f"hidden_act={encoder.hidden_act!r} has no name in transformers: it cannot be "
            "written in Hugging Face's format"
        )
    activation = activations[encoder.hidden_act]
    return {
        "architectures": [architecture],
        "model_type": MODEL_TYPE,
        **{name: getattr(encoder, name) for name in _SAME},
        "hidden_act": activation,
        "layer_norm_eps": encoder.layer_norm_epsilon,
        "pad_token_id": pad_token_id,
        "tie_word_embeddings": True,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "classifier_dropout": 0.1,
        "dtype": "float32",
        **({TRAINED_POSITIONS: trained_positions} if trained_positions else {}),
        **more,
    }
