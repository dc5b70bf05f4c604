"""Replaces remote paths in flags (`gs://…`) by local copies, and uploads outputs.

`REMOTE` of a program gives the role of each flag that may be remote. A remote path in any other
flag is refused, so that none is taken for a local path by accident.
"""

import contextlib
import enum
import functools
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from absl import flags

from electra_tf.util.console import warn_once
from electra_tf.util.errors import PreemptedError, UserError
from electra_tf.util.paths import RemotePath, is_remote
from electra_tf.util.tensorflow_import import import_tensorflow
from flags import hyperparameters
from flags.remote import copies

# Key for positional arguments, in place of the name of a flag.
ARGUMENTS = ""
# Flags for addresses, which are not paths.
_ADDRESSES = ("allowed_hosts", "host", "mlflow", "tpu_name", "wandb", "workers")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# The comma before a remote path in a list.
_BEFORE_SCHEME = re.compile(rf",(?={_SCHEME.pattern})")
# A misspelled remote path, which would be a local folder.
_MISTYPED = re.compile(r"(?:^|(?<=,))(?P<scheme>gs|s3|hdfs):(?!//)")


class Role(enum.Enum):
    """How a program uses a remote path."""

    ITSELF = "read or written by the program itself"
    FILE = "a file to read"
    VOCABULARY = "a vocabulary to read, with its description"
    MODEL = "a model to read: a folder or the prefix of a checkpoint"
    DESCRIPTION = "a folder of a model, without its weights; need not exist"
    EXPORT = "an exported model to read: a folder of versions"
    RUN = "a run to report on"
    OUTPUT_FILE = "a file to write"
    OUTPUT_FOLDER = "a folder to write, whose content is new"


Roles = Mapping[str, Role]
_OUTPUTS = (Role.OUTPUT_FILE, Role.OUTPUT_FOLDER)
_COPIES: Mapping[Role, Callable[[RemotePath, pathlib.Path], pathlib.Path]] = {
    Role.FILE: lambda source, target: copies.copy_file(source, target / source.name),
    Role.VOCABULARY: lambda source, target: copies.copy_vocabulary(
        source, target / source.name
    ),
    Role.MODEL: lambda source, target: copies.copy_model(source, target / source.name),
    Role.DESCRIPTION: lambda source, target: copies.copy_description(
        source, target / source.name
    ),
    Role.EXPORT: lambda source, target: copies.copy_export(source, target / source.name),
    Role.RUN: copies.copy_run,
}


@contextlib.contextmanager
def local_paths(
    roles: Roles, flag_values: flags.FlagValues, arguments: Sequence[str] = ()
) -> Iterator[None]:
    """Replaces remote paths of flags by local ones, and copies outputs when the body ends.

    Args:
        roles: roles of the flags that accept remote paths. With `ARGUMENTS`, positional
            arguments may be remote, too; the program copies them itself.
        flag_values: parsed flags; their values change.
        arguments: the positional arguments.

    Raises:
        UserError: a path must be local, cannot be read, cannot be written, or looks like a
            mistyped remote one. After an error of the body, no output is copied.
    """
    _refuse_mistyped(flag_values, arguments)
    given = remote_values(flag_values)
    for name, value in given.items():
        role = roles.get(name)
        if role is None or (role is not Role.ITSELF and not _SCHEME.match(value)):
            raise UserError(f"--{name}={value} must be on this machine: copy it, or mount it")
    for value in arguments:
        if is_remote(value) and ARGUMENTS not in roles:
            raise UserError(f"{value} must be on this machine: copy it, or mount it")
    if "data_dir" in given:
        import_tensorflow()
    given |= _models_of_data_dir(roles, flag_values, given)
    copied = {name: value for name, value in given.items() if roles[name] is not Role.ITSELF}
    if not copied:
        yield
        return
    import_tensorflow()
    with _Workspace() as workspace:
        for name, value in copied.items():
            copy = functools.partial(workspace.local, f"--{name}", role=roles[name])
            if isinstance(flag_values[name].value, list):
                flag_values[name].value = [
                    copy(each) if is_remote(each) else each
                    for each in _single_paths(flag_values[name].value)
                ]
            else:
                flag_values[name].value = copy(value)
        if "overwrite" in flag_values and flag_values.overwrite:
            workspace.refuse_overwriting()
        with naming_remote_paths(workspace.names):
            yield
        workspace.upload()


@contextlib.contextmanager
def local_runs(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yields paths of runs to report on; remote ones are copied.

    Raises:
        UserError: a path cannot be read.
    """
    if not any(map(is_remote, paths)):
        yield list(paths)
        return
    import_tensorflow()
    with _Workspace() as workspace:
        runs = [
            workspace.local("run", path, Role.RUN) if is_remote(path) else path
            for path in paths
        ]
        with naming_remote_paths(workspace.names):
            yield runs


@contextlib.contextmanager
def naming_remote_paths(names: Mapping[str, str]) -> Iterator[None]:
    """Replaces local copies by their remote paths in output and errors.

    Args:
        names: remote paths by their local ones.
    """
    try:
        with (
            contextlib.redirect_stdout(_Renaming(sys.stdout, names)),
            contextlib.redirect_stderr(_Renaming(sys.stderr, names)),  # for warnings
        ):
            yield
    except (UserError, PreemptedError) as error:
        message = _renamed(str(error), names)
        if message == str(error):
            raise
        kind = PreemptedError if isinstance(error, PreemptedError) else UserError
        raise kind(message) from error


def warn_of_counted_starts(limit: int | None) -> None:
    """Warns that `--max_starts_without_progress` does not count the starts on other machines.

    The count is stored next to the local copy of a remote model folder.

    Args:
        limit: the value of the flag.
    """
    if limit:
        warn_once(
            "--max_starts_without_progress counts the starts on this machine alone, because "
            "the folder of the model is remote"
        )


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for local, remote in names.items():
        text = text.replace(local, remote)
    return text


class _Renaming:
    """A text stream that replaces local copies by their remote paths."""

    def __init__(self, file: TextIO, names: Mapping[str, str]) -> None:
        self._file = file
        self._names = names

    def write(self, text: str) -> int:
        self._file.write(_renamed(text, self._names))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def remote_values(flag_values: flags.FlagValues) -> dict[str, str]:
    """Returns the given remote paths by flag, including those in `--hparams`."""
    return {name: str(value) for name, value in _given_values(flag_values) if is_remote(value)}


def _given_values(flag_values: flags.FlagValues) -> Iterator[tuple[str, Any]]:
    """Yields flags and single values, including those of lists and of `--hparams`."""
    hparams: Mapping[str, Any] = {}
    if "hparams" in flag_values:
        hparams = hyperparameters.read_hparams(flag_values["hparams"].value)
    for name in flag_values:
        if name in (*_ADDRESSES, "hparams"):
            continue
        value = flag_values[name].value
        value = hparams.get(name) if value is None else value
        for each in _single_paths(value) if isinstance(value, list | tuple) else (value,):
            yield name, each


def _refuse_mistyped(flag_values: flags.FlagValues, arguments: Sequence[str]) -> None:
    """Raises UserError for `gs:/…`, which would name a folder of this machine."""
    given = [(f"--{name}={value}", value) for name, value in _given_values(flag_values)]
    for named, value in (*given, *((each, each) for each in arguments)):
        match = _MISTYPED.search(value) if isinstance(value, str) else None
        if match:
            scheme = match["scheme"]
            raise UserError(
                f"{named}: remote paths begin with {scheme}://, and {scheme}: would be a "
                f"folder of this machine; if it is meant, pass ./{value[match.start() :]}"
            )


def _single_paths(values: Sequence[Any]) -> Iterator[Any]:
    """Yields the paths in the values of a list flag, some of which may be joined by commas."""
    for value in values:
        yield from _BEFORE_SCHEME.split(value) if isinstance(value, str) else (value,)


def given_value(flag_values: flags.FlagValues, name: str) -> Any:
    """Returns the value of a flag or, if it is not given, its value in `--hparams`."""
    value = flag_values[name].value
    if value is None and "hparams" in flag_values:
        return hyperparameters.read_hparams(flag_values["hparams"].value).get(name)
    return value


def _models_of_data_dir(
    roles: Roles, flag_values: flags.FlagValues, given: Mapping[str, str]
) -> dict[str, str]:
    """Returns the models to copy from a remote DATA_DIR/models, by flag."""
    if "data_dir" not in given:
        return {}
    data_dir = given["data_dir"].rstrip("/")
    models = {}
    if roles.get("model_dir", Role.ITSELF) is not Role.ITSELF:
        name = given_value(flag_values, "model_name")
        if name and not given_value(flag_values, "model_dir"):
            models["model_dir"] = f"{data_dir}/models/{name}"
    if roles.get("init_checkpoint", Role.ITSELF) is not Role.ITSELF:
        name = given_value(flag_values, "init_checkpoint")
        if name and (model := copies.remote_model(name, data_dir)):
            models["init_checkpoint"] = model
    return models


class _Workspace:
    """A temporary folder of this machine for copies of remote paths.

    Attributes:
        names: remote paths by their local ones.
    """

    def __init__(self) -> None:
        self._outputs: list[tuple[str, pathlib.Path, RemotePath, object]] = []
        self.names: dict[str, str] = {}
        self._keeps = False

    def __enter__(self) -> "_Workspace":
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="electra-remote-"))
        return self

    def __exit__(self, *_: object) -> None:
        if not self._keeps:
            shutil.rmtree(self._folder, ignore_errors=True)

    def local(self, flag: str, value: str, role: Role) -> str:
        """Returns the local path for a remote one: a copy, or an output to upload."""
        remote = RemotePath(value)
        folder = self._folder / str(len(self.names))
        try:
            if role in _OUTPUTS:
                local = self._output(flag, remote, folder, role)
            else:
                print(f"Reading {remote} ({flag}) …", file=sys.stderr)
                local = _COPIES[role](remote, folder)
        except OSError as error:
            does = "written" if role in _OUTPUTS else "read"
            raise UserError(f"{flag}={value} cannot be {does}: {error.strerror}") from error
        self.names[str(local)] = str(remote)
        return str(local)

    def _output(
        self, flag: str, remote: RemotePath, folder: pathlib.Path, role: Role
    ) -> pathlib.Path:
        local = folder / remote.name
        is_folder = role is Role.OUTPUT_FOLDER
        (local if is_folder else folder).mkdir(parents=True)
        parent = remote if is_folder else remote.parent
        parent.check_writable()
        # Placeholders, which are not uploaded, show the program which names exist, and what
        # folders such as the versions of an export contain.
        if is_folder:
            for path in remote.iterdir():
                named = local / path.name
                named.mkdir(exist_ok=True)
                for inner in path.iterdir() if path.is_dir() else ():
                    (named / inner.name).mkdir(exist_ok=True)
        elif remote.exists():
            local.touch()
        self._outputs.append((flag, local, remote, _version(local)))
        return local

    def refuse_overwriting(self) -> None:
        """Raises UserError if an output folder is not empty."""
        for flag, local, remote, _ in self._outputs:
            if local.is_dir() and any(local.iterdir()):
                raise UserError(
                    f"{flag}={remote} is not empty, and --overwrite cannot replace a remote "
                    "folder: pass another folder"
                )

    def upload(self) -> None:
        """Uploads the outputs; if that fails, raises UserError and keeps the local copies."""
        for flag, local, remote, version in self._outputs:
            if not local.exists() or _version(local) == version:
                continue
            try:
                copies.upload(local, remote)
            except OSError as error:
                self._keeps = True
                raise UserError(
                    f"{flag}={remote} cannot be written: {error.strerror}. The output is "
                    f"kept in {local}"
                ) from error
            print(f"Copied to {remote}", file=sys.stderr)


def _version(path: pathlib.Path) -> object:
    """Returns a value that changes when a file is written; folders always differ."""
    if not path.is_file():
        return object()
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino
