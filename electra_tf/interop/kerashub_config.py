"""`config.json` and the tokenizer of a KerasHub preset of ELECTRA; imports no TensorFlow."""

import os
import pathlib
from typing import Any

from electra_tf.config.encoder import EncoderConfig
from electra_tf.interop.checkpoint import ModelDescription
from electra_tf.util.files import read_json

CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer.json"
VOCAB_FILE = os.path.join("assets", "tokenizer", "vocabulary.txt")
REGISTERED_NAME = "keras_hub>ElectraBackbone"
# KerasHub's backbone fixes these.
HIDDEN_ACT = "gelu_tanh"
LAYER_NORM_EPSILON = 1e-12


def is_kerashub_folder(path: str) -> bool:
    """Returns whether `config.json` there is that of a preset of `ElectraBackbone`."""
    config_file = os.path.join(path, CONFIG_FILE)
    return os.path.isfile(config_file) and (
        read_json(config_file).get("registered_name") == REGISTERED_NAME
    )


def read_kerashub_description(folder: str) -> ModelDescription:
    """Returns what a preset says of encoder and tokenizer."""
    config = read_json(os.path.join(folder, CONFIG_FILE))["config"]
    tokenizer = read_json(os.path.join(folder, TOKENIZER_CONFIG_FILE)).get("config", {})
    vocabulary = pathlib.Path(folder, VOCAB_FILE)
    lower = tokenizer.get("lowercase", False)
    return ModelDescription(
        encoder=EncoderConfig(
            vocab_size=config["vocab_size"],
            embedding_size=config["embedding_dim"],
            hidden_size=config["hidden_dim"],
            num_hidden_layers=config["num_layers"],
            num_attention_heads=config["num_heads"],
            intermediate_size=config["intermediate_dim"],
            hidden_act=HIDDEN_ACT,
            hidden_dropout_prob=config["dropout"],
            attention_probs_dropout_prob=config["dropout"],
            max_position_embeddings=config["max_sequence_length"],
            type_vocab_size=config["num_segments"],
            layer_norm_epsilon=LAYER_NORM_EPSILON,
        ),
        do_lower_case=lower,
        strip_accents=tokenizer.get("strip_accents", False) and lower,
        vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
    )


def backbone_arguments(encoder: EncoderConfig) -> dict[str, Any]:
    """Returns the constructor's arguments of KerasHub's backbone."""
    return {
        "vocab_size": encoder.vocab_size,
        "num_layers": encoder.num_hidden_layers,
        "num_heads": encoder.num_attention_heads,
        "hidden_dim": encoder.hidden_size,
        "embedding_dim": encoder.embedding_size,
        "intermediate_dim": encoder.intermediate_size,
        "dropout": encoder.hidden_dropout_prob,
        "max_sequence_length": encoder.max_position_embeddings,
        "num_segments": encoder.type_vocab_size,
    }
