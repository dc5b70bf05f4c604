"""Weights that fine-tuning starts from, and fine-tuned models of any format."""

import dataclasses
import os
import re
from collections.abc import Callable

import numpy as np

from electra_tf.config.trained_positions import trained_positions
from electra_tf.interop.formats import INIT_FLAG, find_format, saved_hyperparameters
from electra_tf.interop.initialization import (
    encoder_digest,
    load_encoder,
    load_variables,
    read_initial,
)
from electra_tf.interop.model_checkpoint import ENCODER_SCOPE, ModelCheckpoint, TaskDescription
from electra_tf.interop.native_models import saved_encoder
from electra_tf.model.encoder import Encoder
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.model import FinetuningModel
from finetune.model_family import FINETUNING, finetuned_variables

_POSITIONS = f"{ENCODER_SCOPE}embeddings/position_embeddings"


def find_checkpoint(config: FinetuningConfig) -> str | None:
    """Returns the checkpoint to initialize from; None for random weights.

    Raises:
        UserError: `init_checkpoint` does not exist.
    """
    path = config.init_checkpoint
    if path == RANDOM_INIT:
        return None
    try:
        find_format(path, INIT_FLAG)
    except UserError as error:
        raise UserError(
            f"{error}. Pre-train with run_pretraining.py first, pass another --model_name or "
            f"--init_checkpoint, or pass {INIT_FLAG}={RANDOM_INIT} to start from random weights"
        ) from error
    return path


def check_not_own_model(config: FinetuningConfig) -> None:
    """Raises UserError if the run would replace the model that it starts from.

    Later trials, and the same command run again, would start from what the run has trained.
    """
    own = re.escape(os.path.realpath(config.model_dir))
    inside = re.fullmatch(
        rf"{own}_(\d+)(_fold\d+)?(/.*)?", os.path.realpath(config.init_checkpoint), re.DOTALL
    )
    if inside and (config.num_trials < 0 or int(inside[1]) <= config.num_trials):
        raise UserError(
            f"{INIT_FLAG}={config.init_checkpoint} is where this run keeps its own models: "
            "pass another --model_dir, so that the model to start from is not replaced"
        )


def pretrained_positions(config: FinetuningConfig) -> int | None:
    """Returns the number of position embeddings that pre-training has trained.

    None if that is unknown (see `electra_tf.config.trained_positions.trained_positions`), or
    the weights are random.
    """
    if config.init_checkpoint == RANDOM_INIT:
        return None
    saved = saved_hyperparameters(config.init_checkpoint, needs_vocabulary=False)
    trained = trained_positions(saved)
    positions = config.encoder.max_position_embeddings
    if trained is None or not config.interpolate_positions:
        return trained
    before = saved_encoder(saved).max_position_embeddings
    if before >= positions:
        return trained
    return 1 + (trained - 1) * (positions - 1) // (before - 1)


def load_pretrained_encoder(
    config: FinetuningConfig, path: str, encoder: Encoder, print_fn: Callable[[str], None]
) -> str:
    """Loads the encoder that training starts from; returns its SHA-256 in the checkpoint.

    Args:
        config: hyperparameters.
        path: result of `find_checkpoint`.
        encoder: encoder to load.
        print_fn: prints matched, missing and unused names.

    Raises:
        UserError: the checkpoint's encoder is incomplete, or of another size.
    """
    checkpoint = read_initial(path)
    digest = encoder_digest(checkpoint)
    if config.interpolate_positions:
        positions = config.encoder.max_position_embeddings
        checkpoint = interpolate_positions(checkpoint, positions, print_fn)
    load_encoder(checkpoint, path, encoder, print_fn)
    return digest


def interpolate_positions(
    checkpoint: ModelCheckpoint, num_positions: int, print_fn: Callable[[str], None]
) -> ModelCheckpoint:
    """Returns a checkpoint whose encoder has at least `num_positions` position embeddings.

    The first and last embedding of a shorter table stay the first and last one; those between
    are linear interpolations.
    """
    table = checkpoint.arrays.get(_POSITIONS)
    if table is None or len(table) >= num_positions:
        return checkpoint
    print_fn(f"Position embeddings: {len(table)}, interpolated to {num_positions}")
    places = np.linspace(0, len(table) - 1, num_positions)
    below = np.minimum(places.astype(int), len(table) - 2)
    share = (places - below)[:, None]
    stretched = (1 - share) * table[below] + share * table[below + 1]
    arrays = {**checkpoint.arrays, _POSITIONS: stretched.astype(table.dtype)}
    return dataclasses.replace(checkpoint, arrays=arrays)


def initial_digest(path: str) -> str | None:
    """Returns the SHA-256 of the encoder at an `init_checkpoint`; None if there is none."""
    if path == RANDOM_INIT:
        return None
    try:
        find_format(path, INIT_FLAG)
    except UserError:
        return None  # the checkpoint that a fine-tuned model started from may be gone
    return encoder_digest(read_initial(path))


def load_encoder_and_heads(
    model: FinetuningModel, path: str, print_fn: Callable[[str], None]
) -> tuple[int, dict[str, TaskDescription]]:
    """Loads encoder and heads of a fine-tuned model of any format.

    Returns:
        Its number of training steps (0 if unknown), and descriptions of its tasks, by name.

    Raises:
        UserError: it has no fine-tuned heads of the tasks, or is of another size.
    """
    try:
        checkpoint = find_format(path, INIT_FLAG, (FINETUNING,)).read(path)
    except UserError as error:
        raise UserError(
            f"{INIT_FLAG}={path} is evaluated with --do_train=false, but is not a "
            f"fine-tuned model: {error}"
        ) from error
    mapping = finetuned_variables(model)
    load_variables(
        checkpoint,
        mapping,
        mapping,
        encoder=model.encoder_config,
        path=path,
        flag=INIT_FLAG,
        print_fn=print_fn,
    )
    return checkpoint.step or 0, {task.name: task for task in checkpoint.description.tasks}
