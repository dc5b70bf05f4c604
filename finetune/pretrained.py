"""Loads the encoder of a pre-trained checkpoint of any format: all of it, or nothing."""

from electra_tf.interop.formats import find_format
from electra_tf.interop.initialization import FLAG
from electra_tf.util.errors import UserError
from finetune.config import FinetuningConfig
from finetune.config_defaults import RANDOM_INIT


def find_checkpoint(config: FinetuningConfig) -> str | None:
    """Returns the checkpoint to start from; None for random weights.

    Raises:
        UserError: there is no checkpoint where `init_checkpoint` says.
    """
    path = config.init_checkpoint
    if path == RANDOM_INIT:
        return None
    try:
        find_format(path, FLAG)
    except UserError as error:
        raise UserError(
            f"{error}. Pre-train with run_pretraining.py first, name another --model_name or "
            f"--init_checkpoint, or pass {FLAG}={RANDOM_INIT} to start from random weights"
        ) from error
    return path
