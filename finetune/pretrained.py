"""Loads the encoder of a pre-trained checkpoint of any format: all of it, or nothing."""

from collections.abc import Callable

from electra_tf.interop.formats import find_format
from electra_tf.interop.initialization import initialize_from_checkpoint
from electra_tf.model.encoder import Encoder
from electra_tf.tf1_checkpoint import LoadReport, encoder_variables
from electra_tf.util.errors import UserError
from finetune.config import FinetuningConfig
from finetune.config_defaults import RANDOM_INIT

FLAG = "--init_checkpoint"


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


def load_encoder(path: str, encoder: Encoder, say: Callable[[str], None] = print) -> LoadReport:
    """Loads an encoder from a checkpoint of any format.

    Args:
        path: as `find_checkpoint` returns it.
        encoder: every variable of it must be in the checkpoint, in the same shape.
        say: is told what was matched, missing and unused.

    Raises:
        UserError: the checkpoint has not the whole encoder; nothing is loaded then.
    """
    mapping = encoder_variables(encoder)
    return initialize_from_checkpoint(path, mapping, mapping, flag=FLAG, say=say)
