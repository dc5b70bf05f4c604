"""Weights that fine-tuning starts from, and fine-tuned models of any format."""

from collections.abc import Callable, Sequence

from electra_tf.interop.formats import INIT_FLAG, find_format
from electra_tf.interop.initialization import encoder_digest, load_variables, read_initial
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.model import FinetuningModel
from finetune.model_family import FINETUNING, finetuned_variables


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


def initial_digest(path: str) -> str | None:
    """Returns the SHA-256 of the encoder at `path`, an `init_checkpoint`; None without one."""
    if path == RANDOM_INIT:
        return None
    try:
        find_format(path, INIT_FLAG)
    except UserError:
        return None  # of a fine-tuned model, what it started from may be gone
    return encoder_digest(read_initial(path))


def load_finetuned(
    model: FinetuningModel, path: str, print_fn: Callable[[str], None]
) -> tuple[int, dict[str, Sequence[str]]]:
    """Loads encoder and heads of a fine-tuned model of any format.

    Returns:
        Its number of training steps, 0 where unknown, and the labels that its heads were
        trained on, by task, empty where unknown.

    Raises:
        UserError: it has no fine-tuned heads of the tasks, or is of another size.
    """
    try:
        checkpoint = find_format(path, INIT_FLAG, (FINETUNING,)).read(path)
    except UserError as error:
        raise UserError(
            f"{INIT_FLAG}={path} is evaluated with --do_train=false, but is no fine-tuned "
            f"model: {error}"
        ) from error
    mapping = finetuned_variables(model)
    load_variables(checkpoint, mapping, mapping, path=path, flag=INIT_FLAG, print_fn=print_fn)
    labels = {task.name: task.labels for task in checkpoint.description.tasks}
    return checkpoint.step or 0, labels
