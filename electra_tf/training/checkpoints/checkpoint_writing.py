"""Writes checkpoints whole or not at all.

The files of a checkpoint are written into a folder of their own, flushed to the disk and
recorded in a manifest. Then they are renamed, the index last: a checkpoint without
index does not count. A program that is killed before that leaves the folder behind, which the
next save removes.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator

from electra_tf.training.checkpoints.checkpoint_files import (
    INDEX,
    MANIFEST,
    STATE_FILE,
    UNFINISHED,
    checkpoint_path,
    checkpoint_steps,
    sha256,
)
from electra_tf.util.files import (
    flush_file,
    flush_folder,
    make_folders,
    to_json,
    write_atomically,
)


@contextlib.contextmanager
def whole_checkpoint(prefix: str) -> Iterator[str]:
    """Yields a temporary prefix to write a checkpoint to, which then becomes `prefix`.

    Replaces a checkpoint of that name. After an error, no file has a final name.
    """
    folder, name = os.path.split(prefix)
    make_folders(folder)
    _remove_unfinished(folder)
    temporary = prefix + UNFINISHED
    os.mkdir(temporary)
    # Otherwise a power cut could keep a file but not its folder, which would count as damage.
    flush_folder(folder)
    try:
        yield os.path.join(temporary, name)
        files = sorted(file for file in os.listdir(temporary) if file.startswith(f"{name}."))
        recorded = {}
        for file in files:
            path = os.path.join(temporary, file)
            flush_file(path)
            recorded[file] = {"bytes": os.path.getsize(path), "sha256": sha256(path)}
        manifest = name + MANIFEST
        write_atomically(os.path.join(temporary, manifest), to_json({"files": recorded}))
        # Its old files, if any, must not be mixed with the new ones.
        remove_checkpoint(prefix)
        try:
            for file in sorted([*files, manifest], key=lambda file: file.endswith(INDEX)):
                if file.endswith(INDEX):
                    flush_folder(folder)
                os.replace(os.path.join(temporary, file), os.path.join(folder, file))
        except BaseException:
            remove_checkpoint(prefix)
            raise
        flush_folder(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def record_newest(folder: str, name: str, others: tuple[str, ...] = ()) -> None:
    """Writes TensorFlow's `checkpoint` file, for tools that look for it.

    Args:
        folder: folder of the checkpoints.
        name: name of the newest one, such as ckpt-200.
        others: names of older ones, ascending.
    """
    lines = [f'model_checkpoint_path: "{name}"']
    lines += [f'all_model_checkpoint_paths: "{each}"' for each in (*others, name)]
    write_atomically(os.path.join(folder, STATE_FILE), "\n".join(lines) + "\n")


def keep_newest(folder: str, step: int, count: int) -> None:
    """Removes all but the newest `count` checkpoints up to a step, and records the rest.

    Those of later steps stay: they were incomplete when training resumed from an earlier one.

    Args:
        folder: folder of the checkpoints.
        step: step of the newest one.
        count: number of checkpoints to keep; 0 keeps all.
    """
    steps = [each for each in checkpoint_steps(folder) if each <= step]
    prefixes = [checkpoint_path(folder, each) for each in steps]
    kept = prefixes[-count:] if count else prefixes
    newest = os.path.basename(checkpoint_path(folder, step))
    record_newest(folder, newest, tuple(map(os.path.basename, kept[:-1])))
    for prefix in prefixes[: len(prefixes) - len(kept)]:
        remove_checkpoint(prefix)


def remove_checkpoint(prefix: str) -> None:
    """Removes the files of a checkpoint, the index first."""
    folder, name = os.path.split(prefix)
    files = [
        file
        for file in os.listdir(folder)
        if file in (name + INDEX, name + MANIFEST) or file.startswith(f"{name}.data-")
    ]
    for file in sorted(files, key=lambda file: not file.endswith(INDEX)):
        os.remove(os.path.join(folder, file))


def _remove_unfinished(folder: str) -> None:
    for name in os.listdir(folder):
        if name.endswith(UNFINISHED):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
            prefix = os.path.join(folder, name.removesuffix(UNFINISHED))
            if not os.path.exists(prefix + INDEX):
                remove_checkpoint(prefix)
