"""Paths of this machine, and of the remote file systems that `tf.io.gfile` knows."""

import contextlib
import errno
import functools
import glob
import io
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, BinaryIO

from electra_tf.util.errors import UserError

_MARK = "://"
_PROBE = "write_test.tmp"
# `~/` at the start of a path, which may follow a comma.
_HOME = re.compile(r"(?:^|(?<=,))~/")
# A read of a remote file is a request over the network.
_READ_BYTES = 1 << 20


def is_remote(path: object) -> bool:
    """Whether a path is on a remote file system, such as `gs://bucket/file`."""
    return _MARK in str(path)


def as_path(path: object) -> "AnyPath":
    """Returns a path on any file system; `~` is not expanded."""
    if isinstance(path, RemotePath):
        return path
    return RemotePath(str(path)) if is_remote(path) else pathlib.Path(path)


def convert_paths(config: Any, *names: str) -> None:
    """Converts fields of a frozen dataclass from strings to paths; None stays None."""
    for name in names:
        if (value := getattr(config, name)) is not None:
            object.__setattr__(config, name, as_path(value))


def given_path(path: str) -> "AnyPath":
    """Returns a path given by a user; `~` is the home folder."""
    return as_path(path if is_remote(path) else os.path.expanduser(path))


def with_home(value: Any) -> Any:
    """Returns the value of an option with each `~/` at the start of a path expanded.

    Args:
        value: a string of one path, or of several separated by commas; a list or an object of
            such strings; anything else is returned unchanged.

    Raises:
        UserError: the home folder is unknown, such as in a container whose user has no name.
    """
    if isinstance(value, str):
        home = os.path.expanduser("~")
        if home == "~" and _HOME.search(value):
            raise UserError(
                f"{value}: ~ stands for the home folder, which is unknown here: set HOME, or "
                "pass the whole path"
            )
        return _HOME.sub(lambda _: os.path.join(home, ""), value)
    if type(value) in (list, tuple):
        return type(value)(with_home(each) for each in value)
    if type(value) is dict:
        return {name: with_home(each) for name, each in value.items()}
    return value


def open_binary(path: object) -> BinaryIO:
    """Opens a file on any file system for reading; raises OSError."""
    path = as_path(path)
    if isinstance(path, RemotePath):
        return io.BufferedReader(_RemoteFile(path), _READ_BYTES)
    return open(path, "rb")


@functools.total_ordering
class RemotePath:
    """The methods of `pathlib.Path` that are used here, for remote files.

    All methods raise OSError, as those of `pathlib.Path` do.
    """

    def __init__(self, uri: str):
        scheme, mark, rest = uri.partition(_MARK)
        self._uri = scheme + mark + rest.rstrip("/")

    def __str__(self) -> str:
        return self._uri

    def __repr__(self) -> str:
        return f"RemotePath({self._uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._uri == other._uri

    def __lt__(self, other: "RemotePath") -> bool:
        return self._uri.split("/") < other._uri.split("/")

    def __hash__(self) -> int:
        return hash(self._uri)

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self._uri}/{name}")

    @property
    def name(self) -> str:
        return self._uri.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return pathlib.PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        return pathlib.PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        return pathlib.PurePosixPath(self.name).suffixes

    @property
    def parent(self) -> "RemotePath":
        before, _, _ = self._uri.rpartition("/")
        return self if before.endswith(_MARK[:-1]) else RemotePath(before)

    def with_name(self, name: str) -> "RemotePath":
        return self.parent / name

    def exists(self) -> bool:
        with _as_os_errors(self):
            return _gfile().exists(self._uri)

    def is_dir(self) -> bool:
        with _as_os_errors(self):
            return _gfile().isdir(self._uri)

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    def stat(self) -> SimpleNamespace:
        with _as_os_errors(self):
            return SimpleNamespace(st_size=_gfile().stat(self._uri).length)

    def iterdir(self) -> Iterator["RemotePath"]:
        with _as_os_errors(self):
            names = _gfile().listdir(self._uri)
        return (self / name.rstrip("/") for name in names)

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """Returns the paths in this folder that match, except hidden ones.

        `*` does not match `/`; the folder's path is taken literally.
        """
        with _as_os_errors(self):
            found = sorted(_gfile().glob(f"{glob.escape(self._uri)}/{pattern}"))
        return (path for path in map(RemotePath, found) if not path.name.startswith("."))

    def walk(
        self, enters: Callable[["RemotePath"], bool] = lambda folder: True
    ) -> Iterator["RemotePath"]:
        """Yields the files in a folder at any depth, except hidden ones.

        Args:
            enters: whether to look into a folder below.
        """
        for path in sorted(self.iterdir()):
            if path.name.startswith("."):
                continue
            if path.is_dir():
                if enters(path):
                    yield from path.walk(enters)
            else:
                yield path

    def read_bytes(self) -> bytes:
        with _as_os_errors(self), _gfile().GFile(self._uri, "rb") as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        with _as_os_errors(self), _gfile().GFile(self._uri, "wb") as file:
            file.write(content)

    def check_writable(self) -> None:
        """Makes a folder, and writes and removes a file in it; raises OSError if it cannot."""
        self.mkdir()
        probe = self / _PROBE
        probe.write_bytes(b"")
        probe.unlink()

    def copy_to_local(self, target: pathlib.Path) -> None:
        with _as_os_errors(self):
            _gfile().copy(self._uri, str(target), overwrite=True)

    def copy_from_local(self, source: pathlib.Path) -> None:
        """Copies a file here; raises FileNotFoundError if `source` is no longer there."""
        with _as_os_errors(self):
            _gfile().copy(str(source), self._uri, overwrite=True)

    def mkdir(self) -> None:
        with _as_os_errors(self):
            _gfile().makedirs(self._uri)

    def rename(self, target: "RemotePath") -> None:
        """Moves a file, in place of an older one."""
        with _as_os_errors(self):
            _gfile().rename(self._uri, str(target), overwrite=True)

    def unlink(self, missing_ok: bool = False) -> None:
        if missing_ok and not self.exists():
            return
        with _as_os_errors(self):
            _gfile().remove(self._uri)

    def remove_tree(self) -> None:
        """Removes a folder with all that it contains."""
        with _as_os_errors(self):
            _gfile().rmtree(self._uri)


AnyPath = pathlib.Path | RemotePath


class _RemoteFile(io.RawIOBase):
    """A remote file for reading."""

    def __init__(self, path: RemotePath):
        self._path = path
        with _as_os_errors(path):
            self._file = _gfile().GFile(str(path), "rb")
            self._size = self._file.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        with _as_os_errors(self._path):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        with _as_os_errors(self._path):
            self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _gfile():
    # Imported here, because it takes seconds and most paths are local.
    import tensorflow as tf

    return tf.io.gfile


@contextlib.contextmanager
def _as_os_errors(path: RemotePath) -> Iterator[None]:
    import tensorflow as tf

    scheme = str(path).partition(_MARK)[0]
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError) as error:
        number = errno.ENOENT
        if not isinstance(error, tf.errors.NotFoundError):
            number = errno.EIO
        raise OSError(number, _first_line(error), str(path)) from error
    except (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError) as error:
        reason = f"no permission: {_first_line(error)}"
        raise OSError(errno.EACCES, reason, str(path)) from error
    except tf.errors.UnimplementedError as error:
        reason = f"TensorFlow has no file system {scheme}{_MARK} here ({_first_line(error)})"
        raise OSError(errno.EPROTONOSUPPORT, reason, str(path)) from error
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, _first_line(error), str(path)) from error


def _first_line(error: Exception) -> str:
    message = str(getattr(error, "message", error)).strip().split("\n")[0].rstrip(".")
    return message or "No such file or directory"
