"""Loads fine-tuned models as servables for export."""

import dataclasses
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf.config.distribution import on_one_device
from electra_tf.config.saved_config import is_finetuned
from electra_tf.config.trained_positions import warn_of_untrained_positions
from electra_tf.inference.export.config import (
    ExportConfig,
    choose_component,
    select_fields,
    serving_length,
    warn_of_assumed_length,
)
from electra_tf.inference.export.pretrained import EMBEDDINGS, EmbeddingsServable
from electra_tf.inference.export.servable import Servable, ServableLoader, Source
from electra_tf.interop.model_checkpoint import TASKS
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.text.vocabulary import MODEL_FLAG, load_model_vocabulary
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.classification_fields import WINDOWS
from finetune.config.finetuning import FinetuningConfig
from finetune.config.saved_settings import warn_of_unfinished
from finetune.config.task_kinds import CLASSIFICATION, TAGGING
from finetune.model import FinetuningModel
from finetune.tasks.base import Task
from finetune.tasks.registry import restore_tasks


def load_finetuned(
    config: ExportConfig, saved: Mapping[str, Any], print_fn: Callable[[str], None]
) -> Servable:
    """Returns the servable of a fine-tuned task, or of the embeddings of its encoder.

    Args:
        config: settings of the export.
        saved: hyperparameters of the model's run, with the paths of its folder.
        print_fn: prints a message.

    Raises:
        UserError: the model has no such task, or its folder is incomplete.
    """
    run = on_one_device(FinetuningConfig(**select_fields(FinetuningConfig, saved)))
    if TASKS not in saved:
        raise UserError(
            f"{config.model_dir} does not describe its tasks. Run the same run_finetuning.py "
            "command again: it completes the description of a finished model"
        )
    components = (*run.task_names, EMBEDDINGS)
    component = choose_component(config.component, components, config.model_dir)
    positions = run.encoder.max_position_embeddings
    length = serving_length(config.max_seq_length, run.max_seq_length, positions)
    # Settings that depend on the length, such as the window stride, follow the served length.
    stride = min(run.window_stride, length - NUM_SPECIAL[1])
    run = dataclasses.replace(run, max_seq_length=length, window_stride=stride)
    vocabulary = load_model_vocabulary(run.vocab_file, run.vocab_size, MODEL_FLAG)
    tokenizer = CachedTokenizer(vocabulary, run.do_lower_case, run.strip_accents)
    tasks = restore_tasks(run, tokenizer, saved[TASKS])
    model, checkpoint, step = _restore_model(run, tasks, config.model_dir)
    warn_of_unfinished(saved, step, checkpoint)
    print_fn(f"Model:   {component} of {checkpoint}, {run.precision}")
    warn_of_untrained_positions(saved, length, "--max_seq_length", config.model_dir)
    if not run.task_names:  # a converted encoder
        warn_of_assumed_length(config, saved, length, positions)
    if component in run.task_names:
        (task,) = [task for task in tasks if task.name == component]
        servable = _task_servable(run, model, task, config.model_dir, print_fn)
    else:
        servable = EmbeddingsServable(model.electra, tokenizer.tokenizer, length)
    servable.source = Source(checkpoint, step)
    return servable


def _task_servable(
    run: FinetuningConfig,
    model: FinetuningModel,
    task: Task,
    model_dir: str,
    print_fn: Callable[[str], None],
) -> Servable:
    """Returns the servable of a task, with the maximum sequence length of `run`."""
    length = run.max_seq_length
    if run.long_text == WINDOWS and task.kind is CLASSIFICATION:
        print_fn(
            f"Texts:   longer than {length} tokens are split into windows, with the "
            f"{run.window_pooling} of their logits; rows of token ids are not split"
        )
    if run.authors_tagging_truncation and task.kind is TAGGING:
        warn_once(
            f"{model_dir} was fine-tuned with --authors_tagging_truncation, which "
            "exports ignore: they tag all words that fit, more than the run has scored"
        )
    return pkgutil.resolve_name(task.kind.servable)(model, task, length)


def _restore_model(
    run: FinetuningConfig, tasks: Sequence[Task], model_dir: str
) -> tuple[FinetuningModel, str, int]:
    """Returns the model with its weights, and the path and the step of their checkpoint."""
    with create_strategy(run).scope():
        model = FinetuningModel(run.encoder, tasks, run.precision)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(model_dir, model, step)
    if not checkpoints.restore_latest():
        raise UserError(f"--model_dir={model_dir} contains no checkpoint of a fine-tuned model")
    return model, checkpoints.latest, int(step.numpy())


FINETUNED = ServableLoader(describes=is_finetuned, load=load_finetuned)
