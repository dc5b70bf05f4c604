"""Hugging Face's ELECTRA: reads and writes folders of `transformers`, without PyTorch.

There, generator and discriminator are two models. A checkpoint with both is written as two
folders, `discriminator` and `generator`, and read from their parent folder.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from electra_tf.config.choices import ELECTRA_15, ELECTRIC
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.trained_positions import (
    trained_positions,
    untrained_positions_notes,
)
from electra_tf.interop.huggingface.head_converter import ENCODER_CLASS
from electra_tf.interop.huggingface.heads import (
    SETTINGS,
    from_huggingface_head,
    to_huggingface_head,
)
from electra_tf.interop.huggingface.metadata import (
    CONFIG_FILE,
    huggingface_config,
    is_huggingface_folder,
    read_huggingface_description,
    segment_notes,
)
from electra_tf.interop.huggingface.tensor_names import (
    LM_HEAD_WEIGHT,
    POSITION_EMBEDDINGS,
    SCOPES,
    WORD_EMBEDDINGS,
    from_huggingface,
    normalized_name,
    to_huggingface,
)
from electra_tf.interop.huggingface.tokenizer_files import (
    ADDED_TOKENS_FILE,
    TOKENIZER_FILE,
    tokenizer_files,
)
from electra_tf.interop.huggingface.weight_files import read_weights, write_weights
from electra_tf.interop.model_checkpoint import (
    DISCRIMINATOR_HEAD,
    ENCODER_SCOPE,
    GENERATOR_HEAD,
    GENERATOR_SCOPE,
    TASK_SCOPE,
    CheckpointFormat,
    ModelCheckpoint,
    containing_folder,
    counted_by_scope,
    vocabulary_setting,
)
from electra_tf.text.tokenizer_description import TOKENIZER_SETTINGS
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.files import to_json, write_atomically

PRETRAINING_CLASS = "ElectraForPreTraining"
MASKED_LM_CLASS = "ElectraForMaskedLM"
_PAIR_FOLDERS = DISCRIMINATOR_FOLDER, GENERATOR_FOLDER = "discriminator", "generator"
# Files that make a folder a pair of models.
PAIR = tuple(os.path.join(folder, CONFIG_FILE) for folder in _PAIR_FOLDERS)
# Folder beside the generator's, for an encoder without the discriminator's head.
ENCODER_FOLDER = "encoder"
EMBEDDINGS = "electra/embeddings/"
# Types of weights. Other numbers stand for weights only together with scales or a table.
_WEIGHT_TYPES = ("float16", "bfloat16", "float32", "float64")
# A tensor that every model has.
_TABLE = "electra.embeddings.word_embeddings.weight"
# Saved by PyTorch besides weights: position ids, which are constants.
_BUFFERS = ("electra.embeddings.position_ids", "electra.embeddings.token_type_ids")


class _Part(NamedTuple):
    """One Hugging Face model of a checkpoint; its encoder is `electra/…` in `arrays`."""

    folder: str
    architecture: str
    encoder: EncoderConfig
    arrays: dict[str, np.ndarray]
    head: dict[str, np.ndarray]
    config: dict[str, Any]


class HuggingFaceFormat(CheckpointFormat):
    """`config.json`, `model.safetensors` (or `pytorch_model.bin`) and `vocab.txt`."""

    name = "huggingface"
    shadowing = tuple(
        os.path.join(folder, name)
        for folder in ("", DISCRIMINATOR_FOLDER, GENERATOR_FOLDER, ENCODER_FOLDER)
        for name in (CONFIG_FILE, TOKENIZER_FILE, ADDED_TOKENS_FILE)
    )

    def recognizes(self, path: str) -> bool:
        """Returns whether it is the folder of a model, or of a pair made by `write`."""
        return is_huggingface_folder(path) or _is_pair(path)

    def read(self, path: str | os.PathLike[str]) -> ModelCheckpoint:
        """Returns the model, including the generator if the folder contains both.

        Raises:
            UserError: weights are missing or cannot be read without PyTorch, or the model
                differs from the authors' encoder.
        """
        path = os.fspath(path)
        if not _is_pair(path):
            return _read_folder(path)
        discriminator, generator = (
            _read_folder(os.path.join(path, folder)) for folder in _PAIR_FOLDERS
        )
        _check_kinds(discriminator, generator, path)
        return _joined(discriminator, generator)

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        """Writes one folder, or one per model of the checkpoint."""
        notes: list[str] = []
        parts = _parts(checkpoint, notes)
        description = checkpoint.description
        notes += segment_notes(description.encoder)
        notes += untrained_positions_notes(
            description.hyperparameters, description.encoder.max_position_embeddings
        )
        trained = trained_positions(description.hyperparameters)
        if checkpoint.slots:
            notes.append(f"{len(checkpoint.slots)} optimizer moments")
        if checkpoint.step is not None:
            notes.append(f"the step ({checkpoint.step})")
        pad = _pad_token_id(checkpoint.description.vocabulary)
        for part in parts:
            folder = os.path.join(directory, part.folder if len(parts) > 1 else "")
            tensors = {**to_huggingface(part.arrays), **part.head}
            if part.architecture == ENCODER_CLASS:
                tensors = {name.removeprefix("electra."): v for name, v in tensors.items()}
            content = huggingface_config(
                part.encoder, part.architecture, pad, trained, **part.config
            )
            files = {
                **tokenizer_files(description, _max_seq_length(part) or trained),
                CONFIG_FILE: to_json(content),
            }
            for name, data in files.items():
                write_atomically(os.path.join(folder, name), data)
            write_weights(folder, tensors)
        return notes

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        """Returns model size and casing; of two models, those of the discriminator."""
        folder = containing_folder(path)
        pair = os.path.join(folder, DISCRIMINATOR_FOLDER)
        if not is_huggingface_folder(folder):
            if not is_huggingface_folder(pair):
                return None
            folder = pair
        description = read_huggingface_description(folder).description
        vocabulary = vocabulary_setting(os.path.join(folder, VOCAB_FILE))
        if needs_vocabulary and description.vocabulary and not vocabulary:
            raise UserError(
                f"The vocabulary of {folder} is inside its tokenizer.json: convert the model "
                "with convert_checkpoint.py --to_format=electra_tf, or pass a file with one "
                "token per line as --vocab_file"
            )
        return description.recorded_settings() | vocabulary


def _max_seq_length(part: _Part) -> int | None:
    """Returns the number of tokens to which the part's task truncates; None if unknown."""
    return part.config.get(SETTINGS, {}).get("max_seq_length") if part.head else None


def _pad_token_id(vocabulary: bytes) -> int:
    tokens = [token.strip() for token in vocabulary.decode().split("\n")]
    if "[PAD]" not in tokens:
        raise UserError(
            "The vocabulary has no token [PAD]: pass the model's vocabulary with --vocab_file"
        )
    return tokens.index("[PAD]")


def _is_pair(path: str) -> bool:
    return all(is_huggingface_folder(os.path.join(path, folder)) for folder in _PAIR_FOLDERS)


def _read_folder(folder: str) -> ModelCheckpoint:
    config, description, notes = read_huggingface_description(folder)
    stored = read_weights(folder)
    is_bare = not any(name.startswith("electra.") for name in stored)
    names: dict[str, str] = {}  # stored names by current ones
    for name in stored:
        other = names.setdefault(normalized_name(name, is_bare=is_bare), name)
        if other != name:
            raise UserError(
                f"{folder}: the weights have {other} and {name}, which are names of the same "
                "tensor in different versions of transformers: remove the wrong one"
            )
    tensors = {current: stored[name] for current, name in names.items()}
    if _TABLE not in tensors:
        raise UserError(
            f"{folder}: the weights have no {_TABLE}, but {', '.join(sorted(stored)):.160}: "
            "save those of the model under the names that transformers gives them"
        )
    for name in _BUFFERS:
        tensors.pop(name, None)
    _check_types(tensors, folder)
    num_float64 = sum(value.dtype == np.float64 for value in tensors.values())
    tensors = {name: value.astype(np.float32, copy=False) for name, value in tensors.items()}
    output_layer = tensors.pop(LM_HEAD_WEIGHT, None)
    scopes = tuple(scope.replace("/", ".") for scope in (*SCOPES, "generator_lm_head/"))
    arrays = from_huggingface({k: v for k, v in tensors.items() if k.startswith(scopes)})
    notes = list(notes)
    if num_float64:
        notes.append(f"the precision of float64 tensors ({num_float64}): rounded to float32")
    if output_layer is not None and not np.array_equal(
        output_layer, arrays.get(WORD_EMBEDDINGS)
    ):
        notes.append(
            f"{LM_HEAD_WEIGHT}: differs from the token embeddings, which are used instead, so "
            "predictions differ"
        )
    act = description.encoder.hidden_act
    if act != "gelu" and any(name.startswith(GENERATOR_HEAD) for name in arrays):
        notes.append(_exact_gelu_note(act))
    head = from_huggingface_head(
        {k: v for k, v in tensors.items() if not k.startswith(scopes)}, config
    )
    _check_shapes(head.arrays, description.encoder.hidden_size, folder)
    if not head.arrays and not head.notes and all(k.startswith(ENCODER_SCOPE) for k in arrays):
        notes += _missing_head_notes(config)
    tasks = (head.task,) if head.task else ()
    return ModelCheckpoint(
        description=dataclasses.replace(description, tasks=tasks),
        arrays={**arrays, **head.arrays},
        notes=(*notes, *head.notes),
    )


def _missing_head_notes(config: Mapping[str, Any]) -> list[str]:
    """Returns a note if a configuration names a model with a head, but weights have none."""
    names = config.get("architectures")
    if not isinstance(names, list) or names in ([], [ENCODER_CLASS]):
        return []
    return [f"{CONFIG_FILE} names {names[0]!s:.40}, but the weights are those of an encoder"]


def _check_types(tensors: Mapping[str, np.ndarray], folder: str) -> None:
    """Raises UserError for quantized weights."""
    others = {
        name: value.dtype
        for name, value in tensors.items()
        if name.endswith((".weight", ".bias")) and value.dtype.name not in _WEIGHT_TYPES
    }
    if others:
        name, dtype = next(iter(others.items()))
        raise UserError(
            f"{folder}: {len(others)} tensors are quantized, such as {name} ({dtype}): "
            "convert the original model, with weights in one of the types "
            f"{', '.join(_WEIGHT_TYPES)}"
        )


def _check_shapes(arrays: Mapping[str, np.ndarray], hidden_size: int, folder: str) -> None:
    """Raises UserError unless the layers of a head take the encoder's output."""
    for name, kernel in arrays.items():
        bias = arrays.get(name.removesuffix("kernel") + "bias")
        if name.endswith("/kernel") and kernel.shape != (hidden_size, *np.shape(bias)):
            raise UserError(
                f"{folder}: the head has weights {kernel.shape[::-1]} and biases "
                f"{np.shape(bias)}, but hidden_size in {CONFIG_FILE} is {hidden_size}"
            )


def _check_kinds(discriminator: ModelCheckpoint, generator: ModelCheckpoint, path: str) -> None:
    """Raises UserError unless the second of two models is a generator, and the first is not."""
    for model, folder, is_generator in (
        (discriminator, DISCRIMINATOR_FOLDER, False),
        (generator, GENERATOR_FOLDER, True),
    ):
        if model.has_masked_lm != is_generator:
            found = ("a generator: it has the", "no generator: it has no")[is_generator]
            raise UserError(
                f"{os.path.join(path, folder)} is {found} head of {MASKED_LM_CLASS}. Put the "
                f"{folder} there, or convert one of the folders in {path} alone"
            )


def _joined(discriminator: ModelCheckpoint, generator: ModelCheckpoint) -> ModelCheckpoint:
    """Merges both into one checkpoint; equal embeddings are shared."""

    def is_shared(prefix: str) -> bool:
        left, right = discriminator.part(prefix), generator.part(prefix)
        return left.keys() == right.keys() and all(
            np.array_equal(left[name], value) for name, value in right.items()
        )

    ours, theirs = discriminator.description, generator.description
    if None not in (ours.vocabulary, theirs.vocabulary) and (
        ours.vocabulary.split() != theirs.vocabulary.split()
    ):
        raise UserError(
            f"The vocabularies of {DISCRIMINATOR_FOLDER} and {GENERATOR_FOLDER} differ: "
            "convert one of these folders alone"
        )
    notes = [
        f"{name} {getattr(theirs, name)} of the generator's tokenizer"
        for name in TOKENIZER_SETTINGS
        if theirs.vocabulary is not None and getattr(theirs, name) != getattr(ours, name)
    ]
    is_same = ours.encoder == theirs.encoder and is_shared(ENCODER_SCOPE)
    own = {} if is_same else generator.part(ENCODER_SCOPE)
    # The models share all embeddings, those of tokens and positions, those of tokens, or none.
    for prefixes in ((EMBEDDINGS,), (WORD_EMBEDDINGS, POSITION_EMBEDDINGS), (WORD_EMBEDDINGS,)):
        if all(is_shared(prefix) for prefix in prefixes):
            own = {name: value for name, value in own.items() if not name.startswith(prefixes)}
    renamed = {GENERATOR_SCOPE + name.removeprefix(ENCODER_SCOPE): v for name, v in own.items()}
    return ModelCheckpoint(
        description=dataclasses.replace(
            ours,
            generator=theirs.encoder if own else None,
        ),
        arrays={**discriminator.arrays, **renamed, **generator.part(GENERATOR_HEAD)},
        notes=(*discriminator.notes, *generator.notes, *notes),
    )


def _parts(checkpoint: ModelCheckpoint, notes: list[str]) -> list[_Part]:
    description = checkpoint.description
    encoder, electra = description.encoder, checkpoint.part(ENCODER_SCOPE)
    parts = []
    for task in description.tasks:
        scope = f"{TASK_SCOPE}{task.name}/"
        arrays = {k.removeprefix(scope): v for k, v in checkpoint.part(scope).items()}
        head = to_huggingface_head(task, arrays, encoder.hidden_size)
        notes += head.notes
        parts.append(
            _Part(task.name, head.architecture, encoder, electra, head.tensors, head.config)
        )
    if checkpoint.has_discriminator:
        arrays = electra | checkpoint.part(DISCRIMINATOR_HEAD)
        parts.append(_Part(DISCRIMINATOR_FOLDER, PRETRAINING_CLASS, encoder, arrays, {}, {}))
        # The authors' checkpoints do not record it, but only those of Electric have two towers.
        objective = description.hyperparameters.get("objective", ELECTRIC)
        if checkpoint.has_two_towers and objective == ELECTRIC:
            notes.append(
                f"{DISCRIMINATOR_HEAD}: its outputs are Electric's energies, but "
                f"{PRETRAINING_CLASS} takes them for logits of replaced tokens, which also "
                "depend on the generator"
            )
        if objective == ELECTRA_15:
            notes.append(
                f"{DISCRIMINATOR_HEAD}: objective {ELECTRA_15} has trained it on masked tokens "
                "alone, most of which are replaced: it takes too many tokens of a text for "
                "replaced"
            )
    if checkpoint.has_masked_lm:
        arrays = electra | checkpoint.part(GENERATOR_HEAD)
        shape = encoder
        if checkpoint.has_generator_encoder:
            shape = description.generator
            arrays = _generator_as_model(checkpoint)
        if shape.hidden_act != "gelu":
            notes.append(_exact_gelu_note(shape.hidden_act))
        parts.append(_Part(GENERATOR_FOLDER, MASKED_LM_CLASS, shape, arrays, {}, {}))
    if not any(part.encoder is encoder for part in parts):
        # Without a discriminator, the encoder of interest is not the generator's.
        parts.append(_Part(ENCODER_FOLDER, ENCODER_CLASS, encoder, electra, {}, {}))
    written = [ENCODER_SCOPE, TASK_SCOPE, DISCRIMINATOR_HEAD]
    written += [GENERATOR_HEAD, GENERATOR_SCOPE] if checkpoint.has_masked_lm else []
    lost = [name for name in checkpoint.weights if not name.startswith(tuple(written))]
    notes += counted_by_scope(lost)
    return parts


def _exact_gelu_note(activation: str) -> str:
    return (
        f"{GENERATOR_HEAD}: {MASKED_LM_CLASS} applies the exact GELU, but the head here "
        f"applies {activation}, like the encoder, so logits differ"
    )


def _generator_as_model(checkpoint: ModelCheckpoint) -> dict[str, np.ndarray]:
    """Returns the generator as a model of its own, with the embeddings that it shares."""
    own = checkpoint.part(GENERATOR_SCOPE)
    arrays = {ENCODER_SCOPE + k.removeprefix(GENERATOR_SCOPE): v for k, v in own.items()}
    return {**checkpoint.part(EMBEDDINGS), **arrays, **checkpoint.part(GENERATOR_HEAD)}
