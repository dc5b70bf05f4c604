"""Copies of remote models, runs and outputs on this machine."""

import errno
import os
import pathlib
from collections.abc import Callable, Iterable

from electra_tf.inference.export.config import is_version
from electra_tf.text.tokenizer_description import description_file
from electra_tf.training.checkpoints.checkpoint_files import INDEX, checkpoint_of, step_of
from electra_tf.util.paths import RemotePath, is_remote

_UNUSED_NAMES = ("events.out.", ".")
_UNUSED_ENDINGS = (".tmp", ".lock")
# Folders of Hugging Face's generator and discriminator, and of a KerasHub preset.
_MODEL_FOLDERS = ("discriminator", "generator", "assets")
_REPORT_SUFFIXES = (".json", ".jsonl", ".tsv", ".txt", ".csv")
# Model servers take a folder for a model as soon as it contains this file.
_COPIED_LAST = "saved_model.pb"


def older_checkpoints(files: Iterable[str]) -> set[str]:
    """Returns the checkpoints in a folder, except the last `STEM-STEP` of each stem.

    Args:
        files: names of the files in the folder.
    """
    names = {name for name in map(checkpoint_of, files) if name}
    newest = {}
    for name in sorted(names, key=step_of):
        newest[name.rpartition("-")[0] if step_of(name) >= 0 else name] = name
    return names - set(newest.values())


def copy_file(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies a file into new folders; raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
    source.copy_to_local(target)
    return target


def copy_vocabulary(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies a vocabulary, and the description of its settings if there is one."""
    description = description_file(source)
    if description.exists():
        copy_file(description, description_file(target))
    return copy_file(source, target)


def copy_description(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies a model folder, if it exists, without its checkpoints."""
    target.mkdir(parents=True)
    if source.exists():  # unlike is_dir, raises for an unknown file system
        _copy_model_folder(source, target, lambda name: False)
    return target


def remote_model(value: str, data_dir: str) -> str | None:
    """Returns the remote path of a model that a flag names; None for a local model.

    Args:
        value: a path, or a name in a remote `data_dir`/models.
        data_dir: folder of the data, remote or not.
    """
    if is_remote(value):
        return value
    if not is_remote(data_dir) or os.path.exists(value) or os.path.exists(value + INDEX):
        return None
    path = f"{data_dir.rstrip('/')}/models/{value}"
    return path if RemotePath(path).is_dir() else None


def copy_model(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies a model, with its newest checkpoint only.

    Args:
        source: folder of any format, or the prefix of a TensorFlow checkpoint's files.
        target: folder to copy to.

    Returns:
        The copy of `source`.

    Raises:
        OSError: it does not exist, or cannot be read.
    """
    if source.is_dir():
        older = older_checkpoints(path.name for path in source.iterdir())
        _copy_model_folder(source, target, lambda name: name not in older)
        return target
    prefix = source.with_name(source.name.removesuffix(INDEX))
    if not prefix.with_name(prefix.name + INDEX).exists():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
    _copy_model_folder(prefix.parent, target, lambda name: name == prefix.name)
    return target / prefix.name


def _copy_model_folder(
    source: RemotePath, target: pathlib.Path, is_used: Callable[[str], bool]
) -> None:
    """Copies the files of a model, with the checkpoints whose names are used."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        checkpoint = checkpoint_of(path.name)
        if checkpoint is not None:
            if is_used(checkpoint):
                copy_file(path, target / path.name)
        elif _is_unused(path.name):
            continue
        elif not path.is_dir():
            copy_file(path, target / path.name)
        elif path.name in _MODEL_FOLDERS:
            copy_tree(path, target / path.name)


def copy_tree(
    source: RemotePath,
    target: pathlib.Path,
    is_used: Callable[[str], bool] = lambda name: True,
) -> None:
    """Copies the files of a folder, at any depth, whose relative path is used."""
    start = len(str(source)) + 1
    for path in source.walk():
        name = str(path)[start:]
        if is_used(name):
            copy_file(path, target / name)


def copy_export(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies the newest version of an exported model; raises OSError.

    Args:
        source: folder with one folder per version, of which the highest number is the newest.
        target: folder to copy to.
    """
    if not source.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
    target.mkdir(parents=True)
    versions = [path for path in source.iterdir() if is_version(path.name) and path.is_dir()]
    if versions:
        newest = max(versions, key=lambda path: int(path.name))
        copy_tree(newest, target / newest.name)
    return target


def copy_run(source: RemotePath, target: pathlib.Path) -> pathlib.Path:
    """Copies the files of a run for a report: all except weights.

    Args:
        source: folder of a run, results file of fine-tuning, or folder of such files.
        target: folder to copy to.

    Returns:
        The copy of `source`.
    """
    if source.is_dir():
        folder = source
    elif source.exists():
        folder = source.parent
    else:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
    copy = target / folder.parent.name / folder.name
    copy_tree(folder, copy, lambda name: "/" not in name and _is_of_report(name))
    models = folder.parent / "finetuning_models"  # beside results/
    if models.is_dir():
        copy_tree(models, copy.parent / models.name, _is_of_report)
    return copy if folder is source else copy / source.name


def _is_of_report(name: str) -> bool:
    file = os.path.basename(name)
    return file.endswith(_REPORT_SUFFIXES) and checkpoint_of(file) is None


def _is_unused(name: str) -> bool:
    return name.startswith(_UNUSED_NAMES) or name.endswith(_UNUSED_ENDINGS)


def upload(source: pathlib.Path, target: RemotePath) -> None:
    """Copies a file, or a folder with all that it contains; raises OSError."""
    if source.is_file():
        target.parent.mkdir()
        target.copy_from_local(source)
        return
    files = [path for path in source.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.name == _COPIED_LAST, path)):
        copy = target / path.relative_to(source).as_posix()
        copy.parent.mkdir()
        copy.copy_from_local(path)
