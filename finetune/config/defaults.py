"""Defaults of fine-tuning hyperparameters that depend on task, model size and checkpoint."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.encoder import EncoderConfig, debug_overrides, encoder_settings
from electra_tf.interop.formats import resolve_checkpoint, saved_hyperparameters
from electra_tf.interop.initial_settings import warn_of_other_tokenizer
from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    check_recorded_vocabulary,
    tokenizer_settings,
)
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.console import warn_once
from finetune.config.task_kinds import built_in_kinds, kinds_by_name
from finetune.config.task_spec_parser import load_specs

RANDOM_INIT = "random"
# Suffix of the folders that debug runs write to.
DEBUG_SUFFIX = "-debug"
# Part of the names of the folders of a search's models and results.
SEARCH_SUFFIX = "_search"
_POSITIONS = "max_position_embeddings"
# The authors' defaults by size (their configure_finetuning.py).
LARGE_DEFAULTS = {"learning_rate": 5e-5, "layerwise_lr_decay": 0.9}
# Defaults of single tasks that differ from those of their kind.
_TASK_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "rte": {"num_train_epochs": 10.0},
    "sts": {"num_train_epochs": 10.0},
    "chunk": {"max_seq_length": 256},
    # The authors' code recognizes question answering by "squad" or "qa" in a task's name.
    "naturalqs": {"num_train_epochs": 3.0, "max_seq_length": 128},
}
# Each length bucket is at most about 1.5 times the previous one.
LENGTH_BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def own_kinds(given: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, str]:
    """Returns the kinds of the user's own tasks, by name."""
    specs = load_specs(given["task_spec"]) if given.get("task_spec") else []
    kinds = {spec.name: spec.kind.name for spec in specs}
    if given.get("own_task_kind") and len(tasks) == 1:
        kinds[tasks[0]] = given["own_task_kind"]
    return kinds


def task_defaults(tasks: Sequence[str], own_kinds: Mapping[str, str]) -> dict[str, Any]:
    """Returns the authors' defaults for a single task; custom tasks use those of their kind."""
    if len(tasks) != 1:
        return {}
    (task,) = tasks
    kind = built_in_kinds().get(task) or kinds_by_name().get(own_kinds.get(task))
    return {**(kind.defaults if kind else {}), **_TASK_DEFAULTS.get(task, {})}


def debug_defaults() -> dict[str, Any]:
    """Returns the defaults of `--debug`: a short run with random weights."""
    return {
        "use_tfrecords_if_existing": False,
        "num_trials": 1,
        "iterations_per_loop": 1,
        "log_steps": 1,
        "train_batch_size": 32,
        "num_train_epochs": 3.0,
        "log_examples": True,
        "init_checkpoint": RANDOM_INIT,
        "overwrite": True,
    }


def model_settings(merged: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the model, as given or read from the checkpoint.

    With `init_checkpoint` "random", they are still read from --model_name, to compare that
    model with the same one trained from random weights.
    """
    checkpoint = merged["init_checkpoint"]
    model = os.path.join(merged["data_dir"], "models", merged["model_name"])
    if checkpoint != RANDOM_INIT:
        checkpoint = resolve_checkpoint(checkpoint, merged["data_dir"])
    saved = saved_hyperparameters(
        model if checkpoint == RANDOM_INIT else checkpoint,
        needs_vocabulary="vocab_file" not in given,
    )
    if merged.get("debug") and checkpoint == RANDOM_INIT:
        overrides = debug_overrides(given.get("model_hparam_overrides") or {})
        given = {**given, "model_hparam_overrides": overrides}
    shape = encoder_settings(given, saved)
    if merged.get("interpolate_positions"):
        shape = _with_interpolated_positions(shape, given.get("max_seq_length", 0))
    overrides = shape["model_hparam_overrides"]
    positions = _positions_of(overrides)
    vocab_file = (
        given.get("vocab_file")
        or saved.get("vocab_file")
        or _first_file(
            os.path.join(model, VOCAB_FILE), os.path.join(merged["data_dir"], VOCAB_FILE)
        )
    )
    if checkpoint != RANDOM_INIT:
        check_recorded_vocabulary(saved, vocab_file, checkpoint)
    settings = {
        **shape,
        "init_checkpoint": checkpoint,
        "vocab_file": vocab_file,
        "vocab_size": given.get("vocab_size")
        or overrides.get("vocab_size")
        or saved.get("vocab_size")
        or _count_lines(vocab_file)
        or EncoderConfig.vocab_size,
    }
    settings |= tokenizer_settings(
        {name: given.get(name, saved.get(name)) for name in TOKENIZER_SETTINGS},
        vocab_file,
        model_vocab_file=saved.get("vocab_file") if checkpoint != RANDOM_INIT else None,
    )
    if checkpoint != RANDOM_INIT:
        warn_of_other_tokenizer(given, saved, checkpoint)
    settings["max_seq_length"] = given.get(
        "max_seq_length", min(merged.get("max_seq_length", 128), positions)
    )
    return settings


def _with_interpolated_positions(shape: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Returns the settings of an encoder, with at least `length` position embeddings."""
    overrides = shape["model_hparam_overrides"]
    positions = _positions_of(overrides)
    if length > positions:
        return {**shape, "model_hparam_overrides": {**overrides, _POSITIONS: length}}
    if length < positions:  # a model that has been interpolated before has as many
        warn_once(
            "--interpolate_positions has no effect without a --max_seq_length above the "
            f"model's {positions} position embeddings"
        )
    return dict(shape)


def _positions_of(overrides: Mapping[str, Any]) -> int:
    return overrides.get(_POSITIONS, EncoderConfig.max_position_embeddings)


def _first_file(*paths: str) -> str:
    """Returns the first path that exists, else the last."""
    return next((path for path in paths if os.path.exists(path)), paths[-1])


def _count_lines(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def paths(given: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, str]:
    """Returns the authors' default folders and files of a run, by hyperparameter."""
    label = ",".join(tasks)
    data_dir = given["data_dir"]
    model = os.path.join(data_dir, "models", given["model_name"])
    suffix = DEBUG_SUFFIX if given.get("debug") else ""
    results = given.get("results_dir") or os.path.join(model, f"results{suffix}")
    return {
        "raw_data_dir": os.path.join(data_dir, "finetuning_data"),
        "init_checkpoint": model,
        "model_dir": os.path.join(model, "finetuning_models", f"{label}_model{suffix}"),
        "results_dir": results,
        "results_txt": os.path.join(results, f"{label}_results.txt"),
        "results_pkl": os.path.join(results, f"{label}_results.pkl"),
        "preprocessed_data_dir": os.path.join(
            model, "finetuning_tfrecords", f"{label}_tfrecords{suffix}"
        ),
    }
