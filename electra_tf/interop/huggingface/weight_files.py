"""The files of a Hugging Face folder that have its weights, whole or in shards."""

import os
import shutil
from collections.abc import Mapping

import ml_dtypes  # noqa: F401 - makes bfloat16 known to NumPy
import numpy as np
import safetensors
import safetensors.numpy

from electra_tf.interop.huggingface.metadata import CONFIG_FILE
from electra_tf.interop.huggingface.pytorch_archive import read_pytorch_archive
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_object
from electra_tf.util.path_checks import check_plain_name

WEIGHTS_FILE = "model.safetensors"
PYTORCH_FILE = "pytorch_model.bin"
_INDEX = ".index.json"
# First bytes of a Git LFS pointer.
_POINTER = b"version https://git-lfs"


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a folder by name.

    As in transformers, `model.safetensors` is taken before its shards, and those before
    `pytorch_model.bin` and its shards.

    Raises:
        UserError: there are none, a shard is missing, or a file cannot be read.
    """
    for name, read in ((WEIGHTS_FILE, _read_safetensors), (PYTORCH_FILE, read_pytorch_archive)):
        path = os.path.join(folder, name)
        shards = [path] if os.path.exists(path) else _shards(path + _INDEX)
        for shard in shards:
            _check_content(shard)
        if shards:
            return {name: value for shard in shards for name, value in read(shard).items()}
    raise UserError(f"{folder} contains no weights: neither {WEIGHTS_FILE} nor {PYTORCH_FILE}")


def write_weights(folder: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes `model.safetensors` into a folder with a `config.json`, without copies in memory.

    Raises:
        UserError: it cannot be written.
    """
    path = os.path.join(folder, WEIGHTS_FILE)
    try:
        safetensors.numpy.save_file(dict(tensors), path, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:  # of the system, such as for a full disk
        raise UserError(f"{path} cannot be written: {error}") from error
    # Otherwise only the owner could read it.
    shutil.copymode(os.path.join(folder, CONFIG_FILE), path)


def _check_content(path: str) -> None:
    """Raises UserError for a Git LFS pointer in place of the weights."""
    try:
        with open(path, "rb") as file:
            is_pointer = file.read(len(_POINTER)) == _POINTER
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if is_pointer:
        raise UserError(
            f"{path} has no weights: it is a Git LFS pointer to the file that has them. Run "
            "git lfs pull in its folder, or download that file"
        )


def _shards(index: str) -> list[str]:
    """Returns the paths of the files in an index; none without one."""
    names = list(read_object(index, "weight_map").values())
    for name in names:
        check_plain_name(name, "file", index)
    paths = sorted({os.path.join(os.path.dirname(index), name) for name in names})
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise UserError(f"{index} names files that are missing: {', '.join(missing)}")
    return paths


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, TypeError, KeyError, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except AttributeError as error:  # NumPy has no such type
        raise UserError(
            f"{path} has tensors of a type other than floats of 16, 32 or 64 bits ({error}): "
            "convert the original model, before quantization"
        ) from error
