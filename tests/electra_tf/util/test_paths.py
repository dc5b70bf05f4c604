"""Remote paths, on TensorFlow's file system in memory."""

import errno
import pwd
import uuid

import pytest
import tensorflow as tf

from electra_tf.util import paths
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import pattern_of_files
from electra_tf.util.path_checks import local_path
from electra_tf.util.paths import RemotePath, as_path, given_path, open_binary, with_home


@pytest.fixture
def folder() -> RemotePath:
    path = as_path(f"ram://paths/{uuid.uuid4().hex}")
    path.mkdir()
    return path


def test_paths_are_compared_by_their_text(folder):
    same = RemotePath(str(folder))
    assert {folder, same} == {same}
    assert repr(folder) == f"RemotePath('{folder}')"
    assert sorted([folder / "b", folder / "a/z"]) == [folder / "a/z", folder / "b"]


def test_a_file_that_is_missing_may_be_removed(folder):
    path = folder / "file"
    path.unlink(missing_ok=True)
    path.write_bytes(b"text")
    path.unlink(missing_ok=True)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        path.unlink()


def test_the_characters_of_a_folder_are_no_pattern(folder):
    """The records of `data1` would be taken, or removed, for those of `data[1]`."""
    files = {}
    for name in ("data[1]", "data1", "data*"):
        files[name] = folder / name / "shard-0"
        (folder / name).mkdir()
        files[name].write_bytes(b"")
    for name, file in files.items():
        assert [*(folder / name).glob("shard*")] == [file]
        found = tf.io.gfile.glob(pattern_of_files(f"{folder}/{name}/shard*"))
        assert found == [str(file)]
    pattern = f"{folder}/data[12]/shard*"
    assert tf.io.gfile.glob(pattern_of_files(pattern)) == [str(files["data1"])]


def test_a_file_is_closed_once(folder):
    path = folder / "file"
    path.write_bytes(b"text")
    file = open_binary(path)
    assert file.read() == b"text"
    file.close()
    file.close()


@pytest.mark.parametrize(
    ("error", "number", "message"),
    [
        (tf.errors.NotFoundError, errno.ENOENT, "the bucket says no"),
        (tf.errors.FailedPreconditionError, errno.EIO, "the bucket says no"),
        (tf.errors.PermissionDeniedError, errno.EACCES, "no permission: the bucket says no"),
        (tf.errors.UnauthenticatedError, errno.EACCES, "no permission: the bucket says no"),
        (tf.errors.UnimplementedError, errno.EPROTONOSUPPORT, "no file system gs:// here"),
        (tf.errors.UnavailableError, errno.EIO, "the bucket says no"),
    ],
)
def test_errors_of_tensorflow_are_those_of_a_disk(error, number, message):
    path = RemotePath("gs://bucket/file")
    with pytest.raises(OSError, match=message) as caught, paths._as_os_errors(path):
        raise error(None, None, "the bucket says no\n\tmore")
    assert caught.value.errno == number
    assert caught.value.filename == "gs://bucket/file"
    assert "more" not in str(caught.value)


def test_home_is_expanded_where_a_path_begins(monkeypatch):
    monkeypatch.setenv("HOME", r"/home/\1 a")
    home = r"/home/\1 a"
    assert with_home("~/a,b,~/c") == f"{home}/a,b,{home}/c"
    for value in ("~", "a~/b", "a ~/b", "x://~/y", 3, None, True):
        assert with_home(value) is value
    assert with_home(["~/a", 1]) == [f"{home}/a", 1]
    assert with_home({"train": ("~/a",)}) == {"train": (f"{home}/a",)}


def test_a_home_that_is_unknown_is_no_folder_named_tilde(monkeypatch):
    """As in a container whose user has no name, and without HOME."""

    def unknown(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(UserError, match=r"a,~/b: ~ stands for the home folder, .*: set HOME"):
        with_home("a,~/b")
    assert with_home("a/b") == "a/b"
    for path in ("~", "~nobody-of-this-name/a"):
        assert str(given_path(path)) == path
        assert str(local_path(path, "--flag")) == path
