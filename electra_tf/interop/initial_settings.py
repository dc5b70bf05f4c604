"""Settings that a pre-training run takes from the checkpoint that it starts from.

Imports no TensorFlow: flags are filled in from checkpoints before anything slow happens.
"""

import os
from collections.abc import Mapping
from typing import Any

from electra_tf.config.encoder import encoder_settings
from electra_tf.config.pretraining import PretrainingConfig, default_model_dir
from electra_tf.interop.formats import (
    INIT_FLAG,
    find_format,
    resolve_checkpoint,
    saved_hyperparameters,
)
from electra_tf.interop.native_format import NativeFormat
from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    TokenizerDescription,
    check_recorded_vocabulary,
    huggingface_settings,
    tokenizer_settings,
)
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.authors_files import authors_checkpoint
from electra_tf.util.console import warn_once


def initial_settings(given: Mapping[str, Any], model_dir: str) -> dict[str, Any]:
    """Returns the settings that a pre-training run takes from its initial checkpoint.

    If the run has started, its own description is used, since the initial checkpoint may have
    been deleted. A checkpoint of the authors' code in the folder is a run that has started.

    Args:
        given: hyperparameters given by the user, including `data_dir`; they take precedence.
        model_dir: folder of the run.

    Returns:
        The settings, with the path of `init_checkpoint` if given.

    Raises:
        UserError: there is no such checkpoint.
    """
    source, settings = model_dir, {}
    has_record = NativeFormat().recognizes(model_dir)
    has_begun = has_record or authors_checkpoint(model_dir)
    if given.get("init_checkpoint"):
        path = resolve_checkpoint(given["init_checkpoint"], given["data_dir"])
        settings["init_checkpoint"] = path
        if not has_begun:
            find_format(path, INIT_FLAG)
            source = path
    saved = saved_hyperparameters(source, needs_vocabulary="vocab_file" not in given)
    if "model_size" in saved:
        settings |= encoder_settings(given, saved)
    if not has_record:  # a resumed run is compared with its record
        warn_of_other_tokenizer(given, saved, source)
    rest = {"vocab_size", "do_lower_case", "strip_accents", "vocab_file"} - given.keys()
    return settings | {name: saved[name] for name in rest if name in saved}


def warn_of_other_tokenizer(
    given: Mapping[str, Any], saved: Mapping[str, Any], source: str
) -> None:
    """Warns of flags that contradict the tokenizer settings that a checkpoint records.

    For the vocabulary of a Hugging Face folder, `tokenizer_settings` gives this warning.
    """
    vocab_file = given.get("vocab_file") or saved.get("vocab_file") or ""
    is_of_source = os.path.dirname(os.path.abspath(vocab_file)) == os.path.abspath(source)
    if vocab_file and is_of_source and huggingface_settings(vocab_file):
        return
    for name in TOKENIZER_SETTINGS:
        if name == "strip_accents" and not saved.get("do_lower_case", True):
            continue  # it has no effect
        if name in given and name in saved and given[name] != saved[name]:
            warn_once(
                f"--{name}={str(given[name]).lower()} contradicts {source}, which was trained "
                f"with {str(saved[name]).lower()}, so texts would get different tokens than in "
                "its training. Omit the flag; pre-training also needs records built with that "
                "setting"
            )


def pretraining_config(
    *, records: TokenizerDescription | None = None, **given: Any
) -> PretrainingConfig:
    """Returns the configuration of a run, with the settings of its initial checkpoint.

    Model size, vocabulary and tokenizer settings default to those of `init_checkpoint`, or of
    a checkpoint of the authors' code in the folder of the run. Tokenizer settings also default
    to those of the run's own checkpoints, of the vocabulary, and of `records`, the tokenizer
    that the records were built with, if that is known.

    Raises:
        UserError: there is no such checkpoint, a setting contradicts the description of the
            tokenizer, or `PretrainingConfig.create` raises it.
    """
    given = {name: value for name, value in given.items() if value is not None}
    is_named = given.get("data_dir") and given.get("model_name")  # else `create` refuses it
    if is_named:
        model_dir = default_model_dir(given)
        has_begun = NativeFormat().recognizes(model_dir)
        # A resumed run is compared with its record; see `electra_tf.pretraining`.
        may_change = given.get("allow_changed_settings") and given.get("do_train", True)
        must_match = has_begun and not may_change
        model_vocab_file = os.path.join(model_dir, VOCAB_FILE) if must_match else None
        flags = {}
        if given.get("init_checkpoint") or authors_checkpoint(model_dir):
            initial = initial_settings(given, model_dir)
            flags = {name: f"{name} of {INIT_FLAG}" for name in initial.keys() - given.keys()}
            given |= initial
            if not has_begun:
                is_authors_run = authors_checkpoint(model_dir)  # which is resumed
                source = model_dir if is_authors_run else initial["init_checkpoint"]
                saved = saved_hyperparameters(source, needs_vocabulary=False)
                model_vocab_file = saved.get("vocab_file")
                check_recorded_vocabulary(saved, _vocab_file(given), source)
        given |= tokenizer_settings(
            given,
            _vocab_file(given),
            model_vocab_file=model_vocab_file,
            flags=flags,
            records=records,
        )
    return PretrainingConfig.create(**given)


def _vocab_file(given: Mapping[str, Any]) -> str:
    return given.get("vocab_file") or os.path.join(given["data_dir"], VOCAB_FILE)
