"""How many position embeddings of a model have been trained; the later ones are random.

Training on sequences shorter than the model allows (512 tokens by default) leaves the position
embeddings after their end as they were initialized. No TensorFlow is imported here.
"""

import os
from collections.abc import Mapping
from typing import Any

from electra_tf.config.saved_config import CONFIG_FILE, is_converted, is_pretrained
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_object

# Key of `config.json`: the number of positions that training has used. Fine-tuned models have
# it, unless the number of their pre-training is unknown; pre-trained models, if their sequences
# were longer before (null if they were converted and the number is unknown); converted models,
# if their format records it, as Hugging Face's `config.json` can.
TRAINED_POSITIONS = "trained_positions"


def trained_positions(saved: Mapping[str, Any]) -> int | None:
    """Returns the number of position embeddings trained so far, including by earlier runs.

    None if unknown: for converted models, models pre-trained from one or from a checkpoint that
    no longer exists, and fine-tuned models of older versions.

    Args:
        saved: hyperparameters of its run.
    """
    longest, seen = 0, set()
    while is_pretrained(saved):
        used = positions_of_run(saved)
        if used is None:
            return None
        longest = max(longest, used)
        before = saved.get("init_checkpoint")
        if not before:
            return longest
        if before in seen:
            return None
        seen.add(before)
        saved = _hyperparameters(before)
    used = saved.get(TRAINED_POSITIONS)
    return None if used is None else max(longest, used)


def positions_of_run(saved: Mapping[str, Any]) -> int | None:
    """Returns the number of position embeddings that a pre-training run has trained.

    None if unknown. The checkpoint that it started from does not count, unless it is a
    converted model that was resumed.
    """
    if is_converted(saved):  # its length is only a default
        return saved.get(TRAINED_POSITIONS)
    # Recorded by a run whose sequences have become shorter.
    earlier = saved.get(TRAINED_POSITIONS, 0)
    return None if earlier is None else max(earlier, saved.get("max_seq_length") or 0)


def _hyperparameters(checkpoint: str) -> Mapping[str, Any]:
    """Returns the hyperparameters of a checkpoint of this project; empty for others."""
    folder = checkpoint if os.path.isdir(checkpoint) else os.path.dirname(checkpoint)
    try:
        return read_object(os.path.join(folder, CONFIG_FILE), "hyperparameters")
    except UserError:
        return {}  # unknown positions are not an error


def warn_of_untrained_positions(
    saved: Mapping[str, Any], length: int, flag: str, model: str
) -> None:
    """Warns if sequences may be longer than those that a model was trained on.

    Args:
        saved: hyperparameters of its run.
        length: maximum length of the sequences, in tokens.
        flag: flag that sets the length.
        model: path of the model.
    """
    trained = trained_positions(saved)
    if trained is not None and length > trained:
        warn_once(
            f"{flag}={length} is longer than the {trained} tokens that {model} was trained on: "
            "its position embeddings after them are random, so answers to longer texts are "
            f"unreliable. Pass {flag}={trained}, or train on longer sequences "
            "(--max_seq_length of run_pretraining.py)"
        )


def warn_of_longer_training(
    saved: Mapping[str, Any], length: int, flag: str, checkpoint: str
) -> None:
    """Warns if a run has longer sequences than those that its checkpoint was trained on.

    Args:
        saved: hyperparameters of the run that wrote the checkpoint.
        length: length of the sequences, in tokens.
        flag: flag that sets the length.
        checkpoint: path of the checkpoint that the run starts from.
    """
    trained = trained_positions(saved)
    if trained is not None and length > trained:
        warn_once(
            f"{flag}={length} is longer than the {trained} tokens that {checkpoint} was "
            "trained on: its position embeddings after them are random until this run has "
            "trained them"
        )


def untrained_positions_notes(saved: Mapping[str, Any], positions: int) -> list[str]:
    """Returns a note for conversions to formats whose models take longer texts.

    Args:
        saved: hyperparameters of the run.
        positions: number of position embeddings.
    """
    trained = trained_positions(saved)
    if trained is None or trained >= positions:
        return []
    return [
        f"the length of training: after the first {trained} of {positions}, position "
        f"embeddings are random, so truncate texts to {trained} tokens"
    ]
