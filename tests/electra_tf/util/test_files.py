"""Files appear whole or not at all, and their lines end at newlines."""

import contextlib
import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest

from electra_tf.inference.scoring.nbest import read_nbest_lists
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import (
    flush_folder,
    read_given_lines,
    read_given_text,
    read_json,
    read_lines,
    whole_folder,
    write_atomically,
    write_in_order,
)


def names(folder: pathlib.Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    path = tmp_path / "file.json"
    write_atomically(path, "old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.json"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
@pytest.mark.parametrize("path", ["/proc/none", "/proc/none/file"])
def test_a_folder_where_nothing_can_be_created_is_named(path):
    with pytest.raises(PermissionError) as error:
        write_atomically(path, "content")
    assert reason_of(error.value) == "/proc/none: nothing can be created in this folder"


def write_two(folder: pathlib.Path, *, fails: bool = False) -> None:
    with whole_folder(folder) as temporary:
        write_atomically(f"{temporary}/one", "1")
        write_atomically(f"{temporary}/deep/two", "2")
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_file_that_cannot_be_written_to_its_end_is_named(tmp_path, monkeypatch):
    path = tmp_path / "file.json"

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # names no file

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left") as raised:
        write_atomically(path, "new")
    assert reason_of(raised.value) == f"{path}: No space left on device"


def test_two_programs_do_not_mix_their_files(tmp_path, monkeypatch):
    """One wrote both of its files between the two of the other."""
    paths = [str(tmp_path / name) for name in ("first", "second")]
    program = (
        f"from electra_tf.util.files import write_in_order as write; write({{{paths[0]!r}: "
    )
    program += f"'theirs', {paths[1]!r}: 'theirs'}})"
    others = []
    replace = os.replace

    def replace_slowly(source, target):
        replace(source, target)
        if not others:
            others.append(subprocess.Popen([sys.executable, "-c", program]))
            with contextlib.suppress(subprocess.TimeoutExpired):
                others[0].wait(timeout=2)

    monkeypatch.setattr(os, "replace", replace_slowly)
    write_in_order(dict.fromkeys(paths, "ours"))
    assert others[0].wait(timeout=60) == 0
    assert len({pathlib.Path(path).read_text() for path in paths}) == 1


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    """As root, renaming a file to /dev/null would replace the device for all programs."""
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_in_order({str(pipe): "streamed", str(file): "kept"})
    assert os.read(reader, 99) == b"streamed"
    os.close(reader)
    assert pipe.is_fifo()
    assert names(tmp_path) == ["file", "pipe"]
    write_atomically("/dev/null", "gone")
    assert pathlib.Path("/dev/null").is_char_device()


def test_standard_output_that_is_a_file_keeps_what_was_printed(tmp_path):
    main = "from electra_tf.util.files import write_atomically as w; print('a'); "
    with open(tmp_path / "out", "wb") as output:
        subprocess.run(
            [sys.executable, "-c", main + "w('/dev/stdout', 'b\\n'); print('c')"],
            stdout=output,
            check=True,
        )
    assert (tmp_path / "out").read_text() == "a\nb\nc\n"


def test_a_folder_is_whole(tmp_path):
    with pytest.raises(OSError, match="Input/output"):
        write_two(tmp_path / "folder", fails=True)
    assert names(tmp_path) == []
    write_two(tmp_path / "folder")
    assert names(tmp_path) == ["folder", "folder/deep", "folder/deep/two", "folder/one"]


def test_a_link_that_leads_nowhere_is_named(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError) as raised:
        write_atomically(tmp_path / "link/run/file", "x")
    expected = f"{tmp_path}/link: a link to {tmp_path}/nowhere, which does not exist"
    assert reason_of(raised.value) == expected


def test_a_file_above_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as raised:
        write_two(tmp_path / "file/deep/folder")
    assert reason_of(raised.value) == f"{tmp_path}/file: a file, not a folder"


def test_a_folder_with_files_keeps_them(tmp_path):
    folder = tmp_path / "folder"
    write_atomically(folder / "deep/three", "3")
    write_atomically(folder / "one", "old")
    with pytest.raises(OSError, match="Input/output"):
        write_two(folder, fails=True)
    assert names(folder) == ["deep", "deep/three", "one"]
    assert (folder / "one").read_text() == "old"
    write_two(folder)
    assert names(tmp_path) == [
        "folder",
        *(f"folder/{name}" for name in ("deep", "deep/three", "deep/two", "one")),
    ]
    assert (folder / "one").read_text() == "1"


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_folder_may_be_a_link(tmp_path, is_empty):
    folder = tmp_path / "disk/folder"
    folder.mkdir(parents=True)
    if not is_empty:
        write_atomically(folder / "three", "3")
    (tmp_path / "link").symlink_to(folder)
    write_two(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "disk") == [
        "folder",
        *(f"folder/{name}" for name in ("deep", "deep/two", "one")),
        *([] if is_empty else ["folder/three"]),
    ]


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_mounted_folder_is_filled_from_inside(tmp_path, monkeypatch, is_empty):
    """No file can be renamed from beside it to another file system."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if not is_empty:
        write_atomically(folder / "one", "old")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(folder))
    with whole_folder(folder) as temporary:
        assert os.path.dirname(temporary) == str(folder)
        write_atomically(os.path.join(temporary, "one"), "1")
        write_atomically(os.path.join(temporary, "deep/two"), "2")
    assert names(tmp_path) == ["folder", *(f"folder/{n}" for n in ("deep", "deep/two", "one"))]
    assert (folder / "one").read_text() == "1"


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "lines.txt"
    text = "one\u2028still one\u2029\x85\x0b\x0c\x1c\rand\ntwo\r\n\nlast"
    path.write_bytes(text.encode())
    first = "one\u2028still one\u2029\x85\x0b\x0c\x1c\rand"
    assert read_lines(path) == [first, "two", "", "last"]
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert read_lines(path) == ["one", "\ufefftwo"]
    path.write_bytes(b"")
    assert read_lines(path) == []


def test_json_files_with_a_repeated_key_are_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"a": {"b": 1, "c": 2, "b": 3}}')
    with pytest.raises(UserError, match=r"config\.json is not valid JSON: duplicate key 'b'"):
        read_json(str(path))


def test_a_line_separator_within_a_hypothesis_does_not_end_its_list(tmp_path):
    path = tmp_path / "lists.jsonl"
    text = "good\u2028day"
    path.write_text(json.dumps({"hypotheses": [text]}, ensure_ascii=False) + "\n")
    (nbest,) = read_nbest_lists(path, "--nbest_file")
    assert nbest.hypotheses[0].text == text


def test_a_file_in_place_of_a_folder_is_named_as_given(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_atomically(tmp_path / "folder", "text")
    assert reason_of(raised.value) == f"{tmp_path}/folder: Is a directory"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"caf\xe9", r"^--input: .*UTF-8"), (None, "^--input: cannot be read: No such file")],
)
def test_a_given_file_that_is_no_text_names_its_flag(tmp_path, content, message):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_given_text(str(path), "--input")


def test_a_path_with_a_zero_byte_names_its_flag():
    with pytest.raises(UserError, match=r"^--input: .*null"):
        read_given_text("a\0b", "--input")


def test_json_that_is_no_object_names_its_file(tmp_path):
    path = tmp_path / "config.json"
    for content, problem in (
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1]", "must contain a JSON object"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=f"^{path} {problem}"):
            read_json(str(path))
    assert read_json(str(tmp_path / "none.json")) == {}


def test_folders_of_file_systems_that_cannot_be_flushed_are_left_at_that(tmp_path, monkeypatch):
    def fail(number: int) -> None:
        def fsync(_: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)

    fail(errno.EINVAL)
    flush_folder(tmp_path)
    fail(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        flush_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("w1\nw2\n".encode("utf-16-le"), " is not UTF-8 text: .*UTF-16"),
        ("w1\n".encode("utf-16"), " is UTF-16 .*iconv"),
        (b"\x1f\x8b\x08", " is compressed with gzip"),
        (b"a\rb\r", ": its lines end in carriage returns"),
        (b"a\n\xff", ": line 2 is not UTF-8"),
        (None, ": No such file"),
    ],
)
def test_given_lines_that_are_no_text_name_their_flag(tmp_path, content, message):
    path = tmp_path / "lines.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"^--text_file={path}{message}"):
        read_given_lines(path, "--text_file")
    path.write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert read_given_lines(path, "--text_file") == ["a", "b"]
