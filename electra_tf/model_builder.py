"""Builds pre-training models from configurations, with new weights or those of a checkpoint."""

import dataclasses
import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.phases import training_phases
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.resumption import (
    STAGE_SETTINGS,
    check_recorded_model,
    missing_record,
)
from electra_tf.config.saved_config import load_saved_config
from electra_tf.config.trained_positions import warn_of_untrained_positions
from electra_tf.masking.base import TokenStatistics, masking_class, token_statistics
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.text.vocabulary import Vocabulary, load_model_vocabulary, load_vocabulary
from electra_tf.training.checkpoints.authors_files import (
    authors_checkpoint,
    has_own_checkpoint,
    refuse_authors_checkpoint,
)
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

# Returns int64 [vocab_size] for a vocabulary size: how often the records have each token.
TokenCounter = Callable[[int], np.ndarray]


def model_class(config: PretrainingConfig) -> type[PretrainingModel]:
    """Returns the class selected by `--objective`."""
    return choices.load(choices.OBJECTIVES, config.objective)


def build_model(
    config: PretrainingConfig,
    special: SpecialTokenIds,
    tokens: TokenStatistics | None = None,
) -> PretrainingModel:
    """Returns a model with random weights, as `create_model` does from the vocabulary of a run.

    Args:
        config: configuration of the run.
        special: ids of the special tokens used in masking.
        tokens: token statistics; None if the model neither masks nor samples.

    Raises:
        UserError: the configuration is invalid for the objective.
    """
    return model_class(config)(config, special, tokens)


def load_model(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    strategy: tf.distribute.Strategy,
    token_counts: TokenCounter | None = None,
    workers: Workers | None = None,
) -> tuple[PretrainingModel, int, str]:
    """Returns the model of the latest checkpoint, its step and the path of the checkpoint.

    The model is in the stage that its last step belongs to.

    Args:
        config: of the run.
        vocabulary: of the model.
        strategy: of the variables.
        token_counts: see `create_model`.
        workers: processes that must load the same checkpoint; None for one process.

    Raises:
        UserError: there is no checkpoint, it is of another model or of the authors' code, or
            the workers have different ones.
    """
    refuse_authors_checkpoint(config.model_dir, config.vocab_file)
    check_recorded_model(config)
    if saved := load_saved_config(config.model_dir):
        warn_of_untrained_positions(
            saved.hyperparameters, config.max_seq_length, "--max_seq_length", config.model_dir
        )
        _warn_of_other_start(config, saved.hyperparameters.get("init_checkpoint"))
    elif has_own_checkpoint(config.model_dir):
        raise UserError(missing_record(config.model_dir))
    with strategy.scope():
        model = create_model(config, vocabulary, token_counts)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(config.model_dir, model, step, workers=workers)
    if not checkpoints.restore_latest():
        raise UserError(
            f"No checkpoint in {config.model_dir}: train first, or change "
            "--model_name, --data_dir or --model_dir"
        )
    if workers is not None:
        workers.require_equal_weights(model.variables, checkpoints.latest)
    set_stage(model, int(step.numpy()), _trained_as(config))
    return model, int(step.numpy()), checkpoints.latest


def _warn_of_other_start(config: PretrainingConfig, recorded: str | None) -> None:
    """Warns of an `init_checkpoint` that the model was not trained from.

    A user may expect it to be the model that is loaded, as in fine-tuning. There is no warning
    if the recorded one is gone: it may have been moved, or a copy of a remote one.
    """
    is_gone = recorded and not os.path.exists(os.path.dirname(recorded) or ".")
    if config.init_checkpoint not in (None, recorded) and not is_gone:
        warn_once(
            f"--init_checkpoint={config.init_checkpoint} has no effect: the model is the "
            f"latest checkpoint in {config.model_dir}, which was not trained from it"
        )


def _trained_as(config: PretrainingConfig) -> PretrainingConfig:
    """Returns the configuration with the recorded settings that determine the stages."""
    saved = load_saved_config(config.model_dir)
    recorded = saved.hyperparameters if saved else {}
    if recorded.get("objective") != config.objective:
        return config
    stages = {name: recorded[name] for name in STAGE_SETTINGS if name in recorded}
    return dataclasses.replace(config, **stages)


def set_stage(
    model: PretrainingModel, step: int, trained: PretrainingConfig | None = None
) -> None:
    """Puts a model into the stage that its last step belongs to.

    Args:
        model: the model.
        step: its last step.
        trained: configuration of its training; None if it is that of the model.
    """
    trained = trained or model.config
    for phase in training_phases(trained, model.stages_of(trained)):
        if phase.first_step < step:
            model.stage = phase.stage


def load_checked_vocabulary(config: PretrainingConfig) -> Vocabulary:
    """Loads `--vocab_file`, with a token for each of the `--vocab_size` embeddings.

    Raises:
        UserError: it has too many entries; or fewer than the default of `--vocab_size`, which
            then has been forgotten, unless a checkpoint has as many embeddings.
    """
    size = load_vocabulary(config.vocab_file, "--vocab_file").size
    continues = (
        config.init_checkpoint
        or authors_checkpoint(config.model_dir)
        or has_own_checkpoint(config.model_dir)
    )
    if size < config.vocab_size == PretrainingConfig.vocab_size and not continues:
        given_as, cure = "--vocab_size", f"pass --vocab_size={size}"
        if "vocab_size" in config.model_hparam_overrides:
            given_as, cure = "vocab_size in --model_hparam_overrides", f"set it to {size}"
        raise UserError(
            f"{given_as} is {config.vocab_size}, but {config.vocab_file} has {size} "
            f"entries: {cure}"
        )
    return load_model_vocabulary(config.vocab_file, config.vocab_size, "--vocab_file")


def special_token_ids(vocabulary: Vocabulary) -> SpecialTokenIds:
    """Returns the ids of the special tokens used in masking."""
    return SpecialTokenIds(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)


def create_model(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    token_counts: TokenCounter | None = None,
) -> PretrainingModel:
    """Returns the model with random weights, drawn from Keras's random seed.

    Call `keras.utils.set_random_seed` before for the same weights again.

    Args:
        config: of the run.
        vocabulary: of the model.
        token_counts: counts the tokens of the records, where masking or a unigram generator
            needs that. Without it, such a model can neither mask nor sample, nor can any model
            mask by a `word_list`.

    Raises:
        UserError: the vocabulary has more tokens than the model has embeddings, or there are
            no records to count.
    """
    if vocabulary.size > config.vocab_size:
        raise UserError(
            f"vocab_size is {config.vocab_size}, but the vocabulary has {vocabulary.size} "
            f"tokens: pass vocab_size={vocabulary.size}, or the vocabulary of the model"
        )
    counts = None
    generator_class = model_class(config).generator_class(config)
    needs_counts = masking_class(config).needs_counts or generator_class.needs_counts
    if token_counts is not None and needs_counts:
        counts = token_counts(config.vocab_size)
    if token_counts is None:
        statistics = TokenStatistics.of(vocabulary.tokens)
    else:
        statistics = token_statistics(config, vocabulary, counts)
    return build_model(config, special_token_ids(vocabulary), statistics)


def create_training_state(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    strategy: tf.distribute.Strategy,
    token_counts: TokenCounter,
) -> tuple[PretrainingModel, keras.optimizers.Optimizer, tf.Variable]:
    """Returns a model, its optimizer and the step, created inside the strategy's scope.

    The weights are random, from the seed of the configuration, which becomes that of Python,
    NumPy and TensorFlow. The step is an int64 variable at 0. For `token_counts` see
    `create_model`.

    Raises:
        UserError: the configuration is invalid for the objective.
    """
    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        model = create_model(config, vocabulary, token_counts)
        optimizer = create_optimizer(config, model)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    return model, optimizer, step
