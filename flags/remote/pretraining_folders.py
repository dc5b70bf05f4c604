"""Model folders on remote file systems."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from electra_tf.config.distribution import MULTI_WORKER
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.training.checkpoints.staging import staged_folder
from electra_tf.util.errors import UserError
from electra_tf.util.paths import is_remote
from flags.remote.paths import naming_remote_paths, warn_of_counted_starts


@contextlib.contextmanager
def staged(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> Iterator[PretrainingConfig]:
    """Yields the configuration with a local folder in place of a remote `model_dir`.

    Raises:
        UserError: several workers would write to the folder, or it cannot be read or written.
    """
    folder = config.model_dir
    if not is_remote(folder):
        yield config
        return
    if config.strategy == MULTI_WORKER:
        raise UserError(
            f"--strategy=multi_worker needs a --model_dir that all workers mount, not {folder}"
        )
    warn_of_counted_starts(config.max_starts_without_progress)
    flags = "--model_dir, --data_dir"
    with staged_folder(folder, flags, print_fn, trains=config.do_train) as local:
        values = {n: getattr(config, n) for n in ("model_dir", "results_txt", "results_json")}
        paths = {
            name: local + value.removeprefix(folder)
            for name, value in values.items()
            if f"{value}/".startswith(f"{folder}/")
        }
        # Printed paths must be valid after the local folder is removed.
        with naming_remote_paths({local: folder}):
            yield dataclasses.replace(config, **paths)
