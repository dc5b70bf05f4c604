"""Initializes a model from a checkpoint of any format: the whole encoder, or nothing."""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.encoder import GELUS, NOT_IN_SHAPES, EncoderConfig
from electra_tf.interop.formats import INIT_FLAG, find_format, make_format
from electra_tf.interop.model_checkpoint import (
    ENCODER_SCOPE,
    GENERATOR_HEAD,
    GENERATOR_SCOPE,
    ModelCheckpoint,
)
from electra_tf.interop.moments import slot_variables
from electra_tf.interop.native_models import ENCODER_ONLY, PRETRAINING
from electra_tf.interop.variable_names import (
    GENERATOR_NAME,
    GENERATOR_NAMES,
    LoadReport,
    NamedVariable,
    assign_arrays,
    encoder_variables,
    named_variables,
    names_in,
)
from electra_tf.model.encoder import Encoder
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.training.optimizer import inner_optimizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

# A run needs the encoder; pre-training also uses the rest of the model.
FAMILIES = (PRETRAINING, ENCODER_ONLY)
_EMBEDDINGS = "embeddings"
# The part of a model that a variable belongs to, such as generator/encoder.
_PART = re.compile(r"[^/]+(/(embeddings|encoder)\b)?")


def initialize_from_checkpoint(
    path: str,
    mapping: Iterable[NamedVariable],
    required: Iterable[NamedVariable],
    *,
    encoder: EncoderConfig,
    flag: str,
    print_fn: Callable[[str], None] = print,
) -> LoadReport:
    """Initializes the variables of a model from a checkpoint, without moments and step.

    If the generator of the checkpoint reads embeddings of the discriminator, and the model's
    has its own, these start with the same values; so do disentangled embeddings if the
    checkpoint has no generator.

    Args:
        path: a folder, or the prefix of a checkpoint's files.
        mapping: all variables that may be loaded.
        required: the variables of the encoder, all of which must be loaded.
        encoder: shape of the model's encoder.
        flag: flag to name in errors.
        print_fn: prints matched, missing and unused names, and what has no counterpart.

    Raises:
        UserError: the checkpoint's encoder is incomplete or larger, or shapes differ; nothing
            has been loaded.
    """
    mapping = list(mapping)
    checkpoint = find_format(path, flag, FAMILIES).read(path)
    copies = _copied_embeddings(checkpoint, mapping)
    if copies:
        print_fn(f"Copied from the discriminator's embeddings: {', '.join(copies)}")
    report = load_variables(
        dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, **copies}),
        mapping,
        required,
        encoder=encoder,
        path=path,
        flag=flag,
        print_fn=print_fn,
    )
    _warn_of_other_generator(checkpoint, mapping, f"{path} ({flag})")
    return report


def _copied_embeddings(
    checkpoint: ModelCheckpoint, mapping: Sequence[NamedVariable]
) -> dict[str, np.ndarray]:
    """Returns arrays for the generator's embeddings that are the discriminator's.

    They are shared in the checkpoint only. Or the checkpoint has no generator, and the model's
    embeddings are disentangled: the discriminator then starts with differences of 0.

    Args:
        checkpoint: without names for what its generator shares with the discriminator.
        mapping: variables of the model.

    Returns:
        Arrays of the discriminator by names of the generator, where shapes are the same.
    """
    copies = {}
    is_disentangled = any(entry.base is not None for entry in mapping)
    has_generator = any(name.startswith(GENERATOR_NAME) for name in checkpoint.arrays)
    for entry in mapping:
        for name in entry.names:
            scope, _, rest = name.partition(f"/{_EMBEDDINGS}/")
            array = checkpoint.arrays.get(f"{ENCODER_SCOPE}{_EMBEDDINGS}/{rest}")
            is_copied = checkpoint.part(f"{scope}/") or (is_disentangled and not has_generator)
            if scope not in GENERATOR_NAMES or not is_copied:
                continue
            if name in checkpoint.arrays or array is None or array.shape != entry.part_shape:
                continue
            copies[name] = array
    return copies


def _warn_of_other_generator(
    checkpoint: ModelCheckpoint, mapping: Sequence[NamedVariable], source: str
) -> None:
    """Warns if the encoder of a generator is random although the checkpoint has a generator.

    A checkpoint without one, such as a published discriminator, leaves no other choice.
    """
    names = names_in(mapping)
    encoders = [f"{scope}/encoder/" for scope in GENERATOR_NAMES]
    own = [prefix for prefix in encoders if any(name.startswith(prefix) for name in names)]
    has_generator = any(name.startswith(GENERATOR_NAME) for name in checkpoint.arrays)
    if own and has_generator and not any(map(checkpoint.part, own)):
        warn_once(
            "the encoder of the generator starts from random weights: the generator of "
            f"{source} is of another --generator_type, or its encoder is the full-size one "
            "(--embedding_sharing=all, --objective=mlm). Pass the settings of its run to "
            "continue with it"
        )


def load_variables(
    checkpoint: ModelCheckpoint,
    mapping: Iterable[NamedVariable],
    required: Iterable[NamedVariable],
    *,
    encoder: EncoderConfig,
    path: str,
    flag: str,
    print_fn: Callable[[str], None],
) -> LoadReport:
    """Loads the variables of a checkpoint that has been read from `path`.

    The other arguments are those of `initialize_from_checkpoint`.

    Raises:
        UserError: as `initialize_from_checkpoint`.
    """
    mapping = list(mapping)
    names = set(names_in(mapping))
    beyond = [name for name in checkpoint.part(ENCODER_SCOPE) if name not in names]
    if beyond:
        raise UserError(
            f"{flag}: the encoder of {path} is larger than the configured one. Remove "
            "--model_size, --model_hparam_overrides and --embedding_size to use those of the "
            f"checkpoint. {len(beyond)} variables are only in the checkpoint:\n  "
            + "\n  ".join(beyond)
        )
    _check_generator_head(checkpoint, mapping, path, flag)
    report = assign_arrays(checkpoint.weights, mapping, f"{path} ({flag})", names_in(required))
    _warn_of_other_settings(checkpoint, encoder, f"{path} ({flag})")
    report = report._replace(unused=tuple(sorted({*report.unused, *checkpoint.unread})))
    print_fn(f"Loaded from {checkpoint.path or path}, variables:")
    for line in (*report.lines(), *(f"no counterpart: {note}" for note in checkpoint.notes)):
        print_fn(f"  {line}")
    if report.missing:
        parts = dict.fromkeys(_PART.match(name)[0] for name in report.missing)
        print_fn(f"  start from random weights: {', '.join(parts)}")
    return report


def _check_generator_head(
    checkpoint: ModelCheckpoint,
    mapping: Sequence[NamedVariable],
    path: str,
    flag: str | None = None,
) -> None:
    """Raises UserError if the head of a generator does not fit the full-size encoder.

    Without an encoder of its own, the model's generator has no size that could be changed.

    Args:
        checkpoint: checkpoint that has been read from `path`.
        mapping: variables of the model.
        path: where it was read from.
        flag: flag that names it; None if it is in the folder of the run.
    """
    shapes = {name: entry.part_shape for entry in mapping for name in entry.names}
    arrays = checkpoint.weights
    differing = [n for n in shapes.keys() & arrays.keys() if arrays[n].shape != shapes[n]]
    if (
        differing
        and all(name.startswith(GENERATOR_HEAD) for name in differing)
        and checkpoint.has_generator_encoder
        and not any(name.startswith(GENERATOR_SCOPE) for name in shapes)
    ):
        source = f"{flag}: " if flag else ""
        raise UserError(
            f"{source}the generator of {path} has an encoder of another size, but with "
            "--objective=mlm or --embedding_sharing=all, the generator's encoder is the "
            "full-size one, which its output layer does not fit. Start from the discriminator "
            "alone: convert the checkpoint with convert_checkpoint.py --to_format huggingface, "
            "and pass the folder discriminator of its output as "
            + (flag or f"{INIT_FLAG}, with another --model_name")
        )


def _warn_of_other_settings(
    checkpoint: ModelCheckpoint, encoder: EncoderConfig, source: str
) -> None:
    """Warns of settings by which the model computes other outputs from the same weights.

    The forms of GELU differ by less than 1e-3, so weights trained with one go with the other.
    """
    if not checkpoint.description.heads_recorded:
        return
    recorded = checkpoint.description.encoder
    both_gelu = {encoder.hidden_act, recorded.hidden_act} <= GELUS
    for name in NOT_IN_SHAPES:
        ours, theirs = getattr(encoder, name), getattr(recorded, name)
        if ours != theirs and not (name == "hidden_act" and both_gelu):
            warn_once(
                f"{name} of the model is {ours}, but {source} has {theirs}, for which its "
                f"weights were trained: set it to {theirs} in --model_hparam_overrides, or "
                "omit it"
            )


def resume_authors_run(
    folder: str,
    model: PretrainingModel,
    optimizer: keras.optimizers.Optimizer,
    step: tf.Variable,
    print_fn: Callable[[str], None],
) -> None:
    """Loads weights, moments and step of the authors' checkpoint in a model folder.

    As with the authors, all variables of the model must be in the checkpoint, and training
    continues from its step. Only Adam takes their moments; other optimizers start with zeros.

    Raises:
        UserError: a variable is missing, or a shape differs; nothing has been loaded.
    """
    checkpoint, report = load_authors_weights(folder, model)
    mapping = named_variables(model)
    step.assign(checkpoint.step or 0)
    for each in (optimizer, inner_optimizer(optimizer)):
        each.iterations.assign(checkpoint.step or 0)
    slots = slot_variables(mapping, optimizer)
    loaded = len(assign_arrays(checkpoint.slots, slots, checkpoint.path, ()).matched)
    num_moments = 2 * len(names_in(mapping))
    print_fn(
        f"Continuing from {checkpoint.path}, a checkpoint of the authors' code at step "
        f"{checkpoint.step or 0}, with {loaded} of {num_moments} optimizer moments; "
        "variables:"
    )
    for line in report.lines():
        print_fn(f"  {line}")


def load_authors_weights(
    folder: str, model: PretrainingModel
) -> tuple[ModelCheckpoint, LoadReport]:
    """Loads the weights of the authors' checkpoint in a model folder; returns the checkpoint.

    Raises:
        UserError: a variable is missing, or a shape differs; nothing has been loaded.
    """
    checkpoint = make_format("tf1").read(folder)
    mapping = named_variables(model)
    _check_generator_head(checkpoint, mapping, checkpoint.path)
    report = assign_arrays(checkpoint.weights, mapping, checkpoint.path, names_in(mapping))
    return checkpoint, report


def encoder_digest(checkpoint: ModelCheckpoint) -> str:
    """Returns the SHA-256 of the encoder's names, shapes and weights, in hexadecimal.

    It is the same in every format that has the weights unchanged.
    """
    digest = hashlib.sha256()
    for name, value in sorted(checkpoint.part(ENCODER_SCOPE).items()):
        digest.update(f"{name} {value.shape} {value.dtype}\n".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def read_initial(path: str) -> ModelCheckpoint:
    """Reads a checkpoint of any format that a run can start from."""
    return find_format(path, INIT_FLAG, FAMILIES).read(path)


def load_encoder(
    checkpoint: ModelCheckpoint,
    path: str,
    encoder: Encoder,
    print_fn: Callable[[str], None] = print,
) -> LoadReport:
    """Loads an encoder from a checkpoint, of any format, that has been read from `path`.

    Args:
        checkpoint: result of `read_initial`.
        path: where it was read from.
        encoder: encoder, all of whose variables must be in the checkpoint.
        print_fn: prints matched, missing and unused names.

    Raises:
        UserError: the checkpoint's encoder is incomplete; nothing has been loaded.
    """
    mapping = encoder_variables(encoder)
    return load_variables(
        checkpoint,
        mapping,
        mapping,
        encoder=encoder.config,
        path=path,
        flag=INIT_FLAG,
        print_fn=print_fn,
    )
