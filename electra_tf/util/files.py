"""Atomic file writes; reading of text and JSON files."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import shutil
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from electra_tf.util.errors import UserError, not_utf8
from electra_tf.util.paths import as_path
from electra_tf.util.temporaries import temporary_path
from electra_tf.util.text_checks import ONLY_CARRIAGE_RETURNS, not_text

# Errors of network and FUSE file systems that cannot flush folders.
_CANNOT_FLUSH_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_OPEN_FILE = re.compile(
    r"/dev/std(?P<stream>out|err)|(/dev|/proc/self)/fd/(?P<number>[1-9]\d{0,5})"
)


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes text (UTF-8) or bytes to a temporary file and renames it to `path`.

    The content is flushed to disk before the rename. On an error, no file is left. Devices and
    pipes, such as /dev/null and /dev/stdout, are written to directly.
    """
    write_in_order({os.fspath(path): content})


def write_in_order(contents: Mapping[str, str | bytes]) -> None:
    """Writes files like `write_atomically`, and renames them in the given order.

    All are flushed to disk before the first is renamed, so a full disk leaves the old ones. If
    two programs write the same files at once, all files are those of the last one.

    Args:
        contents: text (UTF-8) or bytes by path.
    """
    encoded = {
        path: content.encode("utf-8") if isinstance(content, str) else content
        for path, content in contents.items()
    }
    for path in filter(is_stream, contents):
        number = _descriptor(path)
        if number == 1 and sys.stdout is not None:
            sys.stdout.flush()  # after what was printed before
        with open(path if number is None else number, "ab", closefd=number is None) as file:
            file.write(encoded.pop(path))
    temporaries = {path: temporary_path(path) for path in encoded}
    try:
        for path, content in encoded.items():
            make_folders(os.path.dirname(path))
            with _creating(path), _adding_path(path), open(temporaries[path], "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        folders = {os.path.dirname(path) or "." for path in encoded}
        with _locking(folders if len(encoded) > 1 else ()):
            for path, temporary in temporaries.items():
                os.replace(temporary, path)
                flush_folder(os.path.dirname(path) or ".")
    except BaseException:
        for temporary in temporaries.values():
            pathlib.Path(temporary).unlink(missing_ok=True)
        raise


def is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe, or a file that this process has open."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    is_file = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return not is_file or _descriptor(path) is not None


def _descriptor(path: str) -> int | None:
    """Returns the number of an open file that is given as /dev/stdout or /dev/fd/N."""
    match = _OPEN_FILE.fullmatch(path)
    if match is None:
        return None
    return {"out": 1, "err": 2}.get(match["stream"] or "") or int(match["number"])


@contextlib.contextmanager
def _locking(folders: Collection[str]) -> Iterator[None]:
    """Locks folders against other programs that use `write_in_order`.

    This has no effect on file systems without locks on folders, such as NFS.
    """
    with contextlib.ExitStack() as stack:
        for folder in sorted(folders):
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)  # releases the lock
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def make_folders(path: str | os.PathLike) -> None:
    """Makes a folder and missing ones above it, and flushes their names to disk."""
    path = os.path.abspath(path or ".")
    missing = []
    while not os.path.isdir(path):
        if os.path.islink(path) and not os.path.exists(path):
            target = f"a link to {os.readlink(path)}, which does not exist"
            raise FileNotFoundError(errno.ENOENT, target, path)
        if os.path.exists(path):
            raise NotADirectoryError(errno.ENOTDIR, "a file, not a folder", path)
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with _creating(each):
            os.makedirs(each, exist_ok=True)  # another program may have made it meanwhile
        flush_folder(os.path.dirname(each))


@contextlib.contextmanager
def _creating(path: str) -> Iterator[None]:
    """Explains the error of a file system without new files, such as /proc."""
    try:
        yield
    except FileNotFoundError as error:
        reason = "nothing can be created in this folder"
        raise PermissionError(errno.EACCES, reason, path) from error


@contextlib.contextmanager
def _adding_path(path: str) -> Iterator[None]:
    """Adds the path to errors that lack it, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields the path of a temporary folder to make beside `path`; its files move to `path`.

    A new or empty folder appears at once, after all of it has been flushed to disk. On an
    error, nothing is written to `path`, which may be a link to a folder.

    The temporary folder is inside `path` if that is a mounted disk or its parent is not
    writable; files then appear one by one.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    is_apart = os.path.ismount(path) or not os.access(folder, os.W_OK)
    is_inside = os.path.isdir(path) and is_apart
    temporary = temporary_path(os.path.join(path if is_inside else folder, name))
    shutil.rmtree(temporary, ignore_errors=True)
    make_folders(os.path.dirname(path))
    try:
        yield temporary
        flush_tree(temporary)
        if not is_inside and (not os.path.isdir(path) or not os.listdir(path)):
            os.replace(temporary, path)
            flush_folder(os.path.dirname(path))
            return
        for folder, _, files in os.walk(temporary):
            target = os.path.normpath(os.path.join(path, os.path.relpath(folder, temporary)))
            make_folders(target)
            for file in files:
                os.replace(os.path.join(folder, file), os.path.join(target, file))
            flush_folder(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def flush_file(path: str) -> None:
    """Waits until a file's content is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def flush_tree(path: str | os.PathLike) -> None:
    """Waits until all files and names in a folder, at any depth, are on the disk."""
    for folder, _, files in os.walk(path):
        for file in files:
            flush_file(os.path.join(folder, file))
        flush_folder(folder)


def flush_folder(path: str) -> None:
    """Waits until the names in a folder are on the disk, if the file system supports it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def read_lines(path: str | os.PathLike) -> list[str]:
    """Returns the lines of a UTF-8 file without byte order mark; they end at LF or CR LF only.

    `str.splitlines` also splits at characters within texts, such as U+2028.
    """
    return _lines(pathlib.Path(path).read_bytes().decode("utf-8-sig"))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_given_lines(path: str | os.PathLike, flag: str) -> list[str]:
    """Returns the lines of a text file that a flag names; see `read_lines`.

    Raises:
        UserError: it is missing, cannot be read, or is not UTF-8 text; the message names the
            flag.
    """
    try:
        content = pathlib.Path(path).read_bytes()
        if reason := not_text(content):
            raise UserError(f"{flag}={path} {reason}")
        text = content.decode("utf-8-sig")
        if "\r" in text.strip() and "\n" not in text:
            raise UserError(f"{flag}={path}: {ONLY_CARRIAGE_RETURNS}")
        return _lines(text)
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{flag}={path}: {not_utf8(error)}") from error


def parse_json(text: str, source: str) -> Any:
    """Returns the value of a JSON text in which no object has a key twice.

    Args:
        text: the text.
        source: the flag or file that has it, for the message.

    Raises:
        UserError: it is not valid JSON, nested too deeply, or a key is repeated.
    """
    try:
        return loads_json(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source} is not valid JSON: {error}") from error


def loads_json(text: str) -> Any:
    """Returns the value of a JSON text, as `json.loads`, unless an object has a key twice.

    Raises:
        ValueError: it is not valid JSON, or a key is repeated.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_object_without_repeated_keys)


def _object_without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {repeated!r:.80}")
    return value


def read_given_text(path: str, source: str) -> str:
    """Returns the text of a UTF-8 file that a user names, without byte order mark.

    Args:
        path: the file.
        source: the flag that names it, for the message.

    Raises:
        UserError: it is missing, cannot be read or is not UTF-8.
    """
    try:
        return pathlib.Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: {not_utf8(error)}") from error
    except ValueError as error:  # a path with a zero byte
        raise UserError(f"{source}: {error}") from error


def remove_files(*paths: str | os.PathLike) -> None:
    """Removes files; missing ones are ignored."""
    for path in paths:
        pathlib.Path(path).unlink(missing_ok=True)


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if there is no file.

    Raises:
        UserError: the file is not valid JSON, or not an object.
    """
    try:
        content = loads_json(as_path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must contain a JSON object")
    return content


def read_object(path: str, name: str) -> dict[str, Any]:
    """Returns the object `name` of a JSON file; empty if it is missing or null.

    Raises:
        UserError: the file is not valid, or the value is not an object.
    """
    value = read_json(path).get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{path}: {name} must be a JSON object, not {value!r:.80}")
    return value


def read_switch(values: Mapping[str, Any], name: str, default: bool, path: str) -> bool:
    """Returns a boolean of a JSON object; the default if it is missing or null.

    Raises:
        UserError: the value is not a boolean; the message names `path`, the file.
    """
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise UserError(f"{path}: {name} must be true or false, not {value!r:.80}")
    return value


def to_json(content: Mapping[str, Any]) -> bytes:
    """Returns indented JSON with a final newline."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
