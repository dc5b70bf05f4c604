"""KerasHub's ELECTRA: presets of `ElectraBackbone` with the tokenizer's vocabulary.

A backbone is an encoder and a pooler; it cannot represent heads of pre-training.
"""

import os
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from electra_tf.config.encoder import GELUS, EncoderConfig
from electra_tf.config.trained_positions import untrained_positions_notes
from electra_tf.interop.huggingface.format import PAIR
from electra_tf.interop.huggingface.metadata import segment_notes
from electra_tf.interop.model_checkpoint import (
    ENCODER_SCOPE,
    CheckpointFormat,
    ModelCheckpoint,
    ModelDescription,
    containing_folder,
    counted_by_scope,
    vocabulary_setting,
)
from electra_tf.text.vocabulary import CONTINUATION, UNK, plain_vocabulary
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.files import read_json, read_object, read_switch, write_atomically

POOLER = "pooled_dense/"
# Paths of KerasHub's variables, and the authors' names.
_EMBEDDINGS = {
    "token_embedding/embeddings": "electra/embeddings/word_embeddings",
    "position_embedding/embeddings": "electra/embeddings/position_embeddings",
    "segment_embedding/embeddings": "electra/embeddings/token_type_embeddings",
    "embeddings_layer_norm/gamma": "electra/embeddings/LayerNorm/gamma",
    "embeddings_layer_norm/beta": "electra/embeddings/LayerNorm/beta",
}
_PROJECTION = {
    "embeddings_projection/kernel": "electra/embeddings_project/kernel",
    "embeddings_projection/bias": "electra/embeddings_project/bias",
}
_LAYER = {
    "self_attention_layer/query": "attention/self/query",
    "self_attention_layer/key": "attention/self/key",
    "self_attention_layer/value": "attention/self/value",
    "self_attention_layer/attention_output": "attention/output/dense",
    "feedforward_intermediate_dense": "intermediate/dense",
    "feedforward_output_dense": "output/dense",
}
_LAYER_NORMS = {
    "self_attention_layer_norm": "attention/output/LayerNorm",
    "feedforward_layer_norm": "output/LayerNorm",
}
# Fields of `EncoderConfig`, and KerasHub's names of them.
_SIZES = {
    "vocab_size": "vocab_size",
    "embedding_size": "embedding_dim",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}
_POOLER_SEED = 0
CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer.json"
ASSET_VOCAB_FILE = os.path.join("assets", "tokenizer", "vocabulary.txt")
REGISTERED_NAME = "keras_hub>ElectraBackbone"
# Fixed by KerasHub's backbone.
HIDDEN_ACT = "gelu_tanh"
_KERASHUB = ("keras_hub", "kerashub", "A preset of KerasHub")
LAYER_NORM_EPSILON = 1e-12
# Note on KerasHub's lowercasing, which follows the stripping of accents.
_CASE_FOLDING = (
    "do_lower_case: KerasHub folds case and composes characters (NFKC) instead, so ß becomes "
    "ss, full-width letters become ordinary ones, and Hangul, which stripping accents divides, "
    "becomes syllables again: texts with them get different tokens"
)
# Weights are float32 in every format; by default, a backbone takes Keras's global policy.
_DTYPE = "float32"


class KerasHubFormat(CheckpointFormat):
    """The format of `save_to_preset` and `from_preset`."""

    name = "kerashub"
    shadowing = (*PAIR, "task.json", "preprocessor.json")

    def recognizes(self, path: str) -> bool:
        """Returns whether it is a preset of `ElectraBackbone`."""
        return is_kerashub_folder(path)

    def read(self, path: str | os.PathLike[str]) -> ModelCheckpoint:
        """Returns the encoder; the pooler has no counterpart.

        Raises:
            UserError: the installed KerasHub cannot load the preset.
        """
        keras_hub = import_extra(*_KERASHUB)

        path = os.fspath(path)
        description = read_kerashub_description(path)
        try:
            with warnings.catch_warnings():
                # Keras leaves weights that it does not find as they were initialized.
                warnings.filterwarnings("error", message="Skipping nested container")
                backbone = keras_hub.models.ElectraBackbone.from_preset(path, dtype=_DTYPE)
        except Exception as error:  # h5py raises RuntimeError for a damaged file, and more
            message = " ".join(str(error).split())[:300]
            raise UserError(f"{path} cannot be loaded by KerasHub: {message}") from error
        variables = {variable.path: variable for variable in backbone.weights}
        arrays = {}
        for theirs, ours, kind in _names(description.encoder):
            value = variables[theirs].numpy()
            arrays[ours] = value.reshape(_flat_shape(value, kind))
        pooler = [path for path in variables if path.startswith(POOLER)]
        note = (
            "KerasHub computes the tanh approximation of GELU, and so does the converted "
            "model; weights trained with the exact GELU need "
            '--model_hparam_overrides=\'{"hidden_act": "gelu"}\' for fine-tuning'
        )
        return ModelCheckpoint(
            description=description,
            arrays=arrays,
            notes=(
                f"{', '.join(pooler)}: ELECTRA has no pooler",
                note,
                *segment_notes(description.encoder, "KerasHub"),
                *_tokenizer_notes(path),
            ),
        )

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes a preset of the encoder (the discriminator's), and its tokenizer."""
        description = checkpoint.description
        encoder = description.encoder
        if encoder.layer_norm_epsilon != LAYER_NORM_EPSILON:
            raise UserError(
                "KerasHub's ElectraBackbone fixes the epsilon of layer normalization at "
                f"{LAYER_NORM_EPSILON}, but this model has {encoder.layer_norm_epsilon}"
            )
        if encoder.hidden_act not in GELUS:
            raise UserError(
                f"KerasHub's ElectraBackbone computes GELU, but this model has hidden_act "
                f"{encoder.hidden_act}"
            )
        ours = [name for name in checkpoint.weights if name.startswith(ENCODER_SCOPE)]
        lost = set(ours).difference(name for _, name, _ in _names(encoder))
        if lost:
            raise UserError(
                f"KerasHub's ElectraBackbone has no counterpart of {', '.join(sorted(lost))}"
            )
        keras_hub = import_extra(*_KERASHUB)

        arguments = backbone_arguments(encoder)
        backbone = keras_hub.models.ElectraBackbone(**arguments, dtype=_DTYPE)
        variables = {variable.path: variable for variable in backbone.weights}
        for theirs, ours, _ in _names(encoder):
            variable = variables[theirs]
            variable.assign(checkpoint.arrays[ours].reshape(variable.shape))
        random = np.random.default_rng(_POOLER_SEED)
        kernel = variables[f"{POOLER}kernel"]
        kernel.assign(encoder.initializer_range * random.standard_normal(kernel.shape))
        os.makedirs(directory, exist_ok=True)
        vocabulary = os.path.join(directory, ASSET_VOCAB_FILE)
        write_atomically(vocabulary, plain_vocabulary(description.vocabulary))
        tokenizer = keras_hub.models.ElectraTokenizer(
            vocabulary=vocabulary,
            lowercase=description.do_lower_case,
            strip_accents=description.strip_accents and description.do_lower_case,
        )
        backbone.save_to_preset(directory)
        tokenizer.save_to_preset(directory)
        # KerasHub writes it without a final newline.
        write_atomically(vocabulary, plain_vocabulary(description.vocabulary))
        return _notes(checkpoint)

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns model size, casing and the tokenizer's vocabulary."""
        folder = containing_folder(path)
        if not is_kerashub_folder(folder):
            return None
        values = read_kerashub_description(folder).recorded_settings()
        return values | vocabulary_setting(os.path.join(folder, ASSET_VOCAB_FILE))


def _notes(checkpoint: ModelCheckpoint) -> list[str]:
    encoder = checkpoint.description.encoder
    notes = [f"{POOLER}kernel: random weights, since ELECTRA has no pooler"]
    if encoder.hidden_act != HIDDEN_ACT:
        notes.append(
            f"hidden_act {encoder.hidden_act}: KerasHub always computes the tanh approximation "
            "of GELU, so its outputs differ slightly"
        )
    if encoder.attention_probs_dropout_prob != encoder.hidden_dropout_prob:
        notes.append("attention_probs_dropout_prob: KerasHub has one rate for all dropouts")
    if checkpoint.description.do_lower_case:
        notes.append(_CASE_FOLDING)
    notes += segment_notes(encoder, "KerasHub")
    notes += untrained_positions_notes(
        checkpoint.description.hyperparameters, encoder.max_position_embeddings
    )
    notes += counted_by_scope(
        name for name in checkpoint.weights if not name.startswith(ENCODER_SCOPE)
    )
    if checkpoint.slots:
        notes.append(f"{len(checkpoint.slots)} optimizer moments")
    if checkpoint.step is not None:
        notes.append(f"the step ({checkpoint.step})")
    return notes


def _tokenizer_notes(folder: str) -> list[str]:
    """Returns notes on settings of a preset's tokenizer that this project does not support."""
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    tokenizer = read_object(path, "config")
    lower = read_switch(tokenizer, "lowercase", False, path)
    notes = [_CASE_FOLDING] if lower else []
    if read_switch(tokenizer, "strip_accents", False, path) and not lower:
        notes.append(
            "strip_accents without lowercase: here, accents are only stripped from lowercased "
            "text, so this tokenizer keeps them"
        )
    for name, only in (("split", True), ("suffix_indicator", CONTINUATION), ("oov_token", UNK)):
        if tokenizer.get(name) not in (None, only):
            notes.append(
                f"{name} {tokenizer[name]!r:.40} of the tokenizer: it is always {only!r} here, "
                "so texts get different tokens"
            )
    return notes


def _names(encoder: EncoderConfig) -> Iterator[tuple[str, str, str]]:
    """Yields KerasHub's path, the authors' name and the kind of each variable."""
    for theirs, ours in _EMBEDDINGS.items():
        yield theirs, ours, "other"
    if encoder.embedding_size != encoder.hidden_size:
        for theirs, ours in _PROJECTION.items():
            yield theirs, ours, "other"
    for i in range(encoder.num_hidden_layers):
        layer, scope = f"transformer_layer_{i}", f"electra/encoder/layer_{i}"
        for theirs, ours in _LAYER.items():
            for last in ("kernel", "bias"):
                kind = "other"
                if theirs.startswith("self_attention_layer/"):
                    is_output = theirs.endswith("attention_output")
                    kind = f"{'output' if is_output else 'input'} {last}"
                yield f"{layer}/{theirs}/{last}", f"{scope}/{ours}/{last}", kind
        for theirs, ours in _LAYER_NORMS.items():
            for last in ("gamma", "beta"):
                yield f"{layer}/{theirs}/{last}", f"{scope}/{ours}/{last}", "other"


def _flat_shape(value: np.ndarray, kind: str) -> tuple[int, ...]:
    """Returns the authors' shape, which merges the axes of heads and head size."""
    return {
        "input kernel": (value.shape[0], -1),
        "input bias": (-1,),
        "output kernel": (-1, value.shape[-1]),
    }.get(kind, value.shape)


def is_kerashub_folder(path: str) -> bool:
    """Returns whether a folder is a preset of `ElectraBackbone`."""
    config_file = os.path.join(path, CONFIG_FILE)
    return os.path.isfile(config_file) and (
        read_json(config_file).get("registered_name") == REGISTERED_NAME
    )


def read_kerashub_description(folder: str) -> ModelDescription:
    """Returns the description of a preset's encoder and tokenizer.

    Without `tokenizer.json`, whether text is lowercased is not recorded.
    """
    config_file = os.path.join(folder, CONFIG_FILE)
    config = read_object(config_file, "config")
    missing = [name for name in _SIZES.values() if name not in config]
    if missing:
        raise UserError(f"{config_file}: the config lacks {', '.join(missing)}")
    tokenizer_file = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    tokenizer = read_object(tokenizer_file, "config")
    vocabulary = pathlib.Path(folder, ASSET_VOCAB_FILE)
    is_recorded = os.path.exists(tokenizer_file)
    lower = read_switch(tokenizer, "lowercase", not is_recorded, tokenizer_file)
    strip = read_switch(tokenizer, "strip_accents", not is_recorded, tokenizer_file)
    try:
        encoder = EncoderConfig(
            **{ours: config[theirs] for ours, theirs in _SIZES.items()},
            hidden_act=HIDDEN_ACT,
            layer_norm_epsilon=LAYER_NORM_EPSILON,
        )
    except UserError as error:
        raise UserError(f"{config_file}: {error}") from error
    return ModelDescription(
        encoder=encoder,
        do_lower_case=lower,
        strip_accents=strip and lower,
        vocabulary=vocabulary.read_bytes() if vocabulary.exists() else None,
        tokenizer_recorded=is_recorded,
    )


def backbone_arguments(encoder: EncoderConfig) -> dict[str, Any]:
    """Returns the constructor's arguments of KerasHub's backbone."""
    ours = {name: getattr(encoder, name) for name in _SIZES}
    ours["attention_probs_dropout_prob"] = encoder.hidden_dropout_prob  # KerasHub has one rate
    return {_SIZES[name]: value for name, value in ours.items()}
