"""Reads the tensors of a `pytorch_model.bin` without PyTorch.

Such a file is a zip of one pickle and the raw bytes of each storage (PyTorch 1.6 and later).
Pickles can run arbitrary code; this unpickler only allows dictionaries and tensors, by the few
names below.
"""

import collections
import io
import math
import os
import pickle
import pickletools
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from electra_tf.util.errors import UserError

_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
# Begins an archive of PyTorch 1.6 or later.
_ZIP = b"PK\x03\x04"
_MEMO_CODES = ("PUT", "BINPUT", "LONG_BINPUT")
# Tensors stored in another order, such as transposed ones, are copied; as a rule each has its
# own storage, so the copies are at most as large as the file.
_MAX_COPIES = 8
_HOW_TO_CONVERT = (
    'Convert it with PyTorch: python -c "import torch; from safetensors.torch import '
    "save_file; save_file({k: v.clone() for k, v in torch.load('pytorch_model.bin', "
    "weights_only=True).items()}, 'model.safetensors', {'format': 'pt'})\""
)


def read_pytorch_archive(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a state dictionary by name.

    Raises:
        UserError: the file is damaged or has another format; the message has a command to
            convert it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            _check_stored(archive, member, path)
            content = archive.read(member)
            _check_sizes(content)
            folder = member.removesuffix("data.pkl")
            state = _Unpickler(io.BytesIO(content), archive, folder).load()
    except (
        zipfile.BadZipFile,
        zlib.error,
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RuntimeError,  # of zipfile, for encrypted and unknown kinds of members
        MemoryError,
        EOFError,
        OSError,
    ) as error:
        if isinstance(error, zipfile.BadZipFile) and _begins_as_archive(path):
            raise UserError(
                f"{path} is damaged or incomplete ({error}): copy or download it again"
            ) from error
        raise UserError(
            f"{path} cannot be read without PyTorch ({error}). {_HOW_TO_CONVERT}"
        ) from error
    if not isinstance(state, dict):
        raise UserError(f"{path} contains a {type(state).__name__}, not a state dictionary")
    arrays = {str(n): value for n, value in state.items() if isinstance(value, np.ndarray)}
    if not arrays:
        raise UserError(
            f"{path} has no tensors, but {', '.join(map(str, state)) or 'nothing':.80}: save "
            "the state dictionary of the model alone"
        )
    copied = sum(value.nbytes for value in arrays.values() if not value.flags.c_contiguous)
    if copied > _MAX_COPIES * os.path.getsize(path):
        raise UserError(
            f"{path} has tensors of {copied:,} bytes that share their storage, far more than "
            f"the file. {_HOW_TO_CONVERT}"
        )
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def _begins_as_archive(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_ZIP)) == _ZIP


def _rebuild_tensor(
    storage: np.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> np.ndarray:
    """Returns the values of a tensor as a view of its storage; strides are in elements."""
    if any(type(n) is not int or n < 0 for n in (offset, *shape, *strides)):
        raise ValueError("offset, shape and strides of a tensor must be whole numbers from 0")
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if math.prod(shape) > storage.size or (0 not in shape and last >= storage.size):
        raise ValueError("a tensor reaches beyond its storage")
    itemsize = storage.itemsize
    return np.lib.stride_tricks.as_strided(
        storage[offset:], shape, [step * itemsize for step in strides], writeable=False
    )


def _check_stored(archive: zipfile.ZipFile, member: str, path: str) -> None:
    """Raises ValueError for a member larger than the file: PyTorch does not compress."""
    size = archive.getinfo(member).file_size
    if size > os.path.getsize(path):
        raise ValueError(f"{member} has {size:,} bytes, more than the file")


def _check_sizes(content: bytes) -> None:
    """Raises ValueError for a pickle that would take much more memory than it has bytes.

    The unpickler allocates its memo up to the largest index, and each array before reading it.
    """
    for code, argument, _ in pickletools.genops(content):
        if code.name in _MEMO_CODES and argument > len(content):
            raise ValueError(f"index {argument:,} of a memo in {len(content):,} bytes")


def _rebuild_parameter(data: np.ndarray, *_: Any) -> np.ndarray:
    return data


_ALLOWED: dict[tuple[str, str], Callable] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
}


class _Unpickler(pickle.Unpickler):
    """Unpickler that only resolves the names of tensors."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self._archive = archive
        self._folder = folder
        self._storages: dict[str, np.ndarray] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind, dtype, key, _, size = pid
        if kind != "storage" or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f"it refers to a {kind}")
        if key not in self._storages:
            member = f"{self._folder}data/{key}"
            _check_stored(self._archive, member, self._archive.filename)
            self._storages[key] = np.frombuffer(self._archive.read(member), dtype)
        storage = self._storages[key]
        if storage.dtype != dtype or storage.size != size:
            raise pickle.UnpicklingError(
                f"storage {key} has {storage.size:,} values of {storage.dtype}, not {size!r} "
                f"of {dtype}"
            )
        return storage
