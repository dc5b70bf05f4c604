"""The position embeddings of a model that its training has used; the others are random.

Sequences that are shorter than the model allows, 512 tokens by default, leave the position
embeddings behind them as they were initialized. No TensorFlow is imported here.
"""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import warn_once

# Key of the `config.json` of a fine-tuned model: number of positions that pre-training or
# fine-tuning has used; missing if that of pre-training is unknown.
TRAINED_POSITIONS = "trained_positions"
# Name and data folder in the settings of pre-trained models that were converted. They do not
# have the length of their pre-training, which other formats do not record.
CONVERTED = {"model_name": "converted", "data_dir": "."}


def trained_positions(saved: Mapping[str, Any]) -> int | None:
    """Returns the number of positions that a model was trained on, from the first.

    None if that is unknown: of converted models, of those that were pre-trained from another
    checkpoint, whose sequences may have been longer, and of fine-tuned ones of older versions.

    Args:
        saved: hyperparameters of its run.
    """
    if "electra_objective" not in saved:
        return saved.get(TRAINED_POSITIONS)
    is_converted = all(saved.get(name) == value for name, value in CONVERTED.items())
    return None if is_converted or saved.get("init_checkpoint") else saved.get("max_seq_length")


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


def untrained_positions_notes(saved: Mapping[str, Any], positions: int) -> list[str]:
    """Returns a note for conversions to formats that do not record the length of training.

    Args:
        saved: hyperparameters of the run.
        positions: number of position embeddings.
    """
    trained = trained_positions(saved)
    if trained is None or trained >= positions:
        return []
    return [
        f"the length of training, {trained} tokens: the other {positions - trained} position "
        f"embeddings are random, so truncate texts to {trained} tokens"
    ]
