"""Tests of finding, reading and dividing a corpus."""

import errno
import gzip
import os
import pathlib
import pickle

import pytest

from electra_tf.util.errors import UserError
from pretrain_data.corpus import blocks as blocks_module
from pretrain_data.corpus.inputs import find_corpus
from pretrain_data.corpus.partition import divide, shuffled
from pretrain_data.corpus.readers import text_files
from pretrain_data.corpus.readers.text_files import TextPart
from pretrain_data.corpus.unreadable import UnreadableError


def read_lines(part) -> list[str]:
    return [line for block in part.read() for line in block.lines]


def whole_file(path) -> TextPart:
    return TextPart(path, 0, path.stat().st_size)


def test_finds_text_files_at_any_depth_in_order(tmp_path):
    for name in ["b.txt", "a/z.txt.gz", "a/b/c.txt", "notes.md", ".hidden.txt", ".git/x.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "a/loop").symlink_to(tmp_path, target_is_directory=True)
    corpus = find_corpus(tmp_path)
    names = [str(part.path.relative_to(tmp_path)) for part in corpus.parts]
    assert names == ["a/b/c.txt", "a/z.txt.gz", "b.txt"]
    assert [path.name for path in corpus.ignored] == ["notes.md"]


def test_files_without_a_suffix_are_text_if_there_is_no_other(tmp_path):
    (tmp_path / "AA").mkdir()
    for name in ["AA/wiki_01", "AA/wiki_00", "README.md"]:
        (tmp_path / name).write_text(f"text of {name}\n")
    corpus = find_corpus(tmp_path)
    assert [part.path.name for part in corpus.parts] == ["wiki_00", "wiki_01"]
    assert read_lines(corpus.parts[0]) == ["text of AA/wiki_00"]
    assert [path.name for path in corpus.ignored] == ["README.md"]
    (tmp_path / "a.txt").write_text("text\n")
    corpus = find_corpus(tmp_path)
    assert [part.path.name for part in corpus.parts] == ["a.txt"]
    assert {path.name for path in corpus.ignored} == {"README.md", "wiki_00", "wiki_01"}


def test_missing_or_empty_corpus_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none \(--corpus-dir\) does not exist"):
        find_corpus(tmp_path / "none")
    with pytest.raises(UserError, match=r"contains no \.txt or \.txt\.gz files"):
        find_corpus(tmp_path)
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(UserError, match="only 1 other files"):
        find_corpus(tmp_path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UserError, match=r"All 1 text files in .* are empty"):
        find_corpus(tmp_path)
    with pytest.raises(UserError, match=r"must be a folder .*a\.txt is a file"):
        find_corpus(tmp_path / "a.txt")


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_lines_end_at_lf_only(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "a.txt"
    path.write_bytes("\n\none\r\ntwo\rstill\u2028two\x85\x0c\n\nlast \u00e9".encode())
    blocks = list(whole_file(path).read())
    lines = [line for block in blocks for line in block.lines]
    assert lines == ["", "", "one\r", "two\rstill\u2028two\x85\x0c", "", "last \u00e9"]
    assert sum(block.num_text_bytes for block in blocks) == path.stat().st_size
    assert sum(block.num_disk_bytes for block in blocks) == path.stat().st_size
    assert [block.ends_file for block in blocks] == [False] * (len(blocks) - 1) + [True]
    compressed = tmp_path / "a.txt.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_lines(whole_file(compressed)) == lines


@pytest.mark.parametrize("line", [16 * "x", 10 * "x" + 12 * " "])
def test_the_rest_of_a_long_line_ends_no_document(tmp_path, monkeypatch, line):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 16)
    (tmp_path / "a.txt").write_text(f"one\n{line}\ntwo\n\nthree\n")
    (part,) = find_corpus(tmp_path).parts
    _, rest = part.split(1, at_documents=True)
    assert (tmp_path / "a.txt").read_text()[rest.start :] == "three\n"


def test_long_lines_are_read_in_pieces_cut_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 16)
    monkeypatch.setattr(blocks_module, "MAX_LINE_BYTES", 32)
    path = tmp_path / "a.txt"
    lines = [
        "short",
        "word " * 20,
        "\u6771\u4eac\u3002" * 12,
        "\u00e9" * 99 + "x",
        "",
        "last one " * 9,
    ]
    path.write_text("\n".join(lines))
    blocks = list(whole_file(path).read())
    joined, pieces = [], []
    for block in blocks:
        assert len(max(block.lines, key=len)) <= 48
        for i, text in enumerate(block.lines):
            if i == 0 and block.continues_line:
                joined[-1] += text
                pieces.append(text)
            else:
                joined.append(text)
    assert joined == lines
    assert sum(block.num_lines for block in blocks) == len(lines)
    assert sum(block.num_text_bytes for block in blocks) == path.stat().st_size
    assert sum(block.num_repairs for block in blocks) == 0
    assert len(pieces) > 10
    # Pieces start with whole words, except where there are none.
    assert {text[:1] for text in pieces} <= {"w", "l", "o", "\u6771", "\u00e9", "x"}
    assert [block.ends_file for block in blocks] == [False] * (len(blocks) - 1) + [True]


def test_what_cannot_be_read_is_named_or_listed(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path):
        if pathlib.Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    corpus = find_corpus(tmp_path, skip_unreadable=True)
    assert [part.path.name for part in corpus.parts] == ["a.txt"]
    reasons = {pathlib.Path(path).name: reason for path, reason in corpus.unreadable.items()}
    assert reasons == {
        "gone.txt": "cannot be read: No such file or directory",
        "folder": "is a broken link",
        "pipe.txt": "cannot be read: it is not a regular file",
        "closed": "cannot be read: Permission denied",
    }
    for name in ("gone.txt", "pipe.txt"):
        (tmp_path / name).unlink()
    with pytest.raises(UnreadableError, match=r"closed \(--corpus-dir\) .*--skip_unread"):
        find_corpus(tmp_path)
    (tmp_path / "closed").rmdir()
    with pytest.raises(UnreadableError, match=r"folder .* is a broken link") as error:
        find_corpus(tmp_path)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_an_empty_file_ends_too(tmp_path):
    (tmp_path / "a.txt").write_text("")
    (block,) = whole_file(tmp_path / "a.txt").read()
    assert (block.lines, block.ends_file) == ([], True)


def test_invalid_utf8_is_repaired_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"caf\xe9 and \xff\xfe\nkept \xef\xbf\xbd as it was\n\xe2\x82")
    (block,) = whole_file(path).read()
    assert block.lines == ["caf\ufffd and \ufffd\ufffd", "kept \ufffd as it was", "\ufffd"]
    assert block.num_repairs == 4


def test_text_of_another_encoding_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(
        ("\uc624\ub298\uc740 \ub0a0\uc528\uac00 \uc88b\ub2e4\n" * 9).encode("cp949")
    )
    with pytest.raises(UnreadableError, match=r"a.txt \(.*\) is not UTF-8 text: .* iconv"):
        next(iter(whole_file(path).read()))


def test_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"text\n" * 1000)[:-20])
    with pytest.raises(
        UserError, match=r"a\.txt\.gz \(--corpus-dir\) is not a complete gzip file"
    ):
        read_lines(whole_file(path))
    path.write_bytes(b"plain text")
    with pytest.raises(UserError, match="is not a complete gzip file"):
        read_lines(whole_file(path))


@pytest.mark.parametrize("num_processes", [1, 2, 3, 7])
def test_a_large_file_is_divided_between_documents(tmp_path, num_processes):
    documents = [f"first {i}\nsecond {i}\n \t\n" for i in range(200)]
    (tmp_path / "small.txt").write_text("small\n")
    (tmp_path / "large.txt").write_text("".join(documents))
    parts = find_corpus(tmp_path).parts
    shares = divide(parts, num_processes, split_at_documents=True)
    assert len(shares) == num_processes
    lines = [line for share in shares for part in share for line in read_lines(part)]
    assert lines == [line for part in parts for line in read_lines(part)]
    for share in shares:
        first, *_, last = [line for part in share for line in read_lines(part)]
        assert first.startswith("first")
        assert last in (" \t", "small")
    sizes = [sum(part.num_disk_bytes for part in share) for share in shares]
    assert max(sizes) - min(sizes) < 3 * len(documents[-1])


def test_a_long_document_is_split_behind_any_line(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(100)))
    parts = find_corpus(tmp_path).parts
    for at_documents in (True, False):
        assert divide(parts, 2, at_documents) == [list(parts)]
        with monkeypatch.context() as patch:
            patch.setattr(text_files, "_MAX_DOCUMENT_BYTES", 100)
            shares = divide(parts, 2, at_documents)
        assert [len(read_lines(share[0])) for share in shares] == [64, 36]


def test_compressed_files_are_not_divided(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.txt.gz").write_bytes(gzip.compress(bytes(range(200)) * 5))
    parts = find_corpus(tmp_path).parts
    assert divide(parts, 2, True) == [list(parts[:2]), list(parts[2:])]
    assert divide(parts[:1], 3, True) == [[parts[0]]]


def test_order_of_files_is_a_function_of_the_seed(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text("x")
    parts = find_corpus(tmp_path).parts
    assert shuffled(parts, 1) == shuffled(parts, 1) != shuffled(parts, 2)
    assert sorted(shuffled(parts, 1), key=lambda part: part.path) == list(parts)
