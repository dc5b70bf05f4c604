"""The limit on restarts of a run without progress (`--max_starts_without_progress`).

A cluster manager restarts a run whose workers were preempted or lost. If an error stops the run
before its next checkpoint each time, this would go on forever.
"""

import contextlib
import glob
import json
import os
from collections.abc import Iterator

from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.saved_config import CONFIG_FILE
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_steps
from electra_tf.training.distribution.strategies import is_chief
from electra_tf.util.errors import LockedError, UserError
from electra_tf.util.files import read_json, write_atomically

STARTS_SUFFIX = ".starts.json"
_FLAG = "--max_starts_without_progress"


def limited_starts(config: DistributionConfig) -> contextlib.AbstractContextManager[None]:
    """Counts starts of training on the chief, if `max_starts_without_progress` is set.

    Raises:
        UserError: on entering it, the run was started too often without progress.
    """
    limit = config.max_starts_without_progress
    if limit and is_chief(config):
        return counted_start(config.model_dir, limit)
    return contextlib.nullcontext()


@contextlib.contextmanager
def counted_start(model_dir: str, limit: int) -> Iterator[None]:
    """Counts the starts of a run since its newest checkpoint, in a file beside its folder.

    The count is reset when the run ends without an error. A start that is refused because
    another program trains into the folder does not count.

    Args:
        model_dir: folder of the run; fine-tuning appends the numbers of trials to it.
        limit: number of starts without a new checkpoint.

    Raises:
        UserError: this start would be one more.
    """
    path = model_dir.rstrip("/") + STARTS_SUFFIX
    progress = _newest_steps(model_dir)
    saved = read_json(path)
    starts = saved.get("starts", 0) if saved.get("newest") == progress else 0
    if starts >= limit:
        raise UserError(
            f"The run in {model_dir} was started {starts} times without a new checkpoint "
            f"({_FLAG}={limit}): fix what its earlier output reports, then delete {path}"
        )
    write_atomically(path, json.dumps({"newest": progress, "starts": starts + 1}) + "\n")
    try:
        yield
    except LockedError:  # another program is making progress
        write_atomically(path, json.dumps({"newest": progress, "starts": starts}) + "\n")
        raise
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _newest_steps(model_dir: str) -> dict[str, int]:
    folders = [model_dir]
    # The folder that trials are named after may exist, but describes no model.
    if not os.path.exists(os.path.join(model_dir, CONFIG_FILE)):
        folders += sorted(glob.glob(f"{glob.escape(model_dir)}_*/"))
    newest = {folder: checkpoint_steps(folder)[-1:] for folder in folders}
    return {folder: steps[0] for folder, steps in newest.items() if steps}
