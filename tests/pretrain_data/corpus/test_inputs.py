"""Tests of --input: finding files of every format, reading and dividing them."""

import bz2
import dataclasses
import gzip
import json
import os
import pickle
import re

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import split_patterns
from electra_tf.util.paths import as_path
from pretrain_data.corpus import blocks as blocks_module
from pretrain_data.corpus import formats
from pretrain_data.corpus.blocks import read_blocks
from pretrain_data.corpus.corpus_report import print_left_out
from pretrain_data.corpus.documents import document_spans
from pretrain_data.corpus.file_search import matching_paths
from pretrain_data.corpus.formats import FormatOptions
from pretrain_data.corpus.inputs import find_inputs, find_text, warn_of_unused_names
from pretrain_data.corpus.partition import divide
from pretrain_data.corpus.unreadable import UnreadableError
from tests.conftest import ROOT

DOCUMENTS = ["first\n\nwith a blank", "second \u00e9", "", "third"] + ["more"] * 6


def json_lines(texts=DOCUMENTS, field="text") -> bytes:
    return b"".join(json.dumps({"id": 1, field: text}).encode() + b"\n" for text in texts)


def write_parquet(path, texts=DOCUMENTS, column="text", rows=3, **options) -> None:
    table = pyarrow.table({"id": list(range(len(texts))), column: pyarrow.array(texts)})
    parquet.write_table(table, path, row_group_size=rows, **options)


def documents(parts, blanks_separate_docs=True) -> list[str]:
    read = [[]]
    for part in parts:
        for block in part.read():
            for start, stop, ends in document_spans(block, blanks_separate_docs):
                lines = block.lines[start:stop]
                if start == 0 and block.continues_line:
                    read[-1][-1] += lines.pop(0)
                read[-1] += lines
                read += [[]] if ends else []
    return ["\n".join(lines) for lines in read if any(lines)]


@pytest.fixture
def files(tmp_path):
    """The same documents in every format."""
    folder = tmp_path / "files"
    folder.mkdir()
    content = json_lines()
    (folder / "a.jsonl").write_bytes(content)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(content))
    frames = [zstandard.compress(content[:90]), zstandard.compress(content[90:])]
    (folder / "c.jsonl.zst").write_bytes(b"".join(frames))
    write_parquet(folder / "d.parquet")
    (folder / "e.txt.zst").write_bytes(zstandard.compress(b"one\ntwo\n\nthree\n"))
    (folder / "f.txt").write_text("four\n")
    (folder / "notes.md").write_text("no corpus")
    return folder


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
def test_every_format_gives_its_documents(files, monkeypatch, block_bytes):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", block_bytes)
    corpus = find_inputs([str(files)])
    assert [part.path.name for part in corpus.parts] == sorted(
        path.name for path in files.iterdir() if path.name != "notes.md"
    )
    assert [path.name for path in corpus.ignored] == ["notes.md"]
    expected = [text for text in DOCUMENTS if text]
    for part in corpus.parts[:4]:
        assert documents([part]) == expected
        blocks = list(part.read())
        assert [block.ends_file for block in blocks] == [False] * (len(blocks) - 1) + [True]
        assert sum(b.num_text_bytes for b in blocks) == len("".join(DOCUMENTS).encode())
        assert sum(block.num_disk_bytes for block in blocks) == part.num_disk_bytes
    assert documents(corpus.parts[4:]) == ["one\ntwo", "three", "four"]


def test_files_globs_and_folders_are_found_once(files, monkeypatch):
    monkeypatch.chdir(files.parent)
    corpus = find_inputs(["files/a.jsonl", "files/*.jsonl*", "**/f.txt", "files/f.txt"])
    names = [part.path.name for part in corpus.parts]
    assert names == [
        "a.jsonl",
        "b.jsonl.gz",
        "c.jsonl.zst",
        "f.txt",
    ]
    for inputs, message in [
        (["files/none"], "--input: files/none does not exist"),
        (["files/*.json"], "no file matches files/*.json"),
        (["files/notes.md"], "notes.md has no suffix of a corpus format; known are .txt, "),
        (["files/*.md"], "files/*.md contains no files of a corpus format"),
    ]:
        with pytest.raises(UserError, match=re.escape(message)):
            find_inputs(inputs)
    with pytest.raises(UserError, match="Pass exactly one of --input and --corpus-dir"):
        find_text(None, ())


@pytest.mark.parametrize("name", ["a.jsonl", "d.parquet"])
def test_records_are_divided_between_processes(files, name):
    parts = find_inputs([str(files / name)]).parts
    shares = divide(parts, 3, split_at_documents=True)
    assert len(shares) == 3
    together = [text for share in shares for text in documents(share)]
    assert together == [text for text in DOCUMENTS if text]
    assert all(documents(share) for share in shares)
    assert pickle.loads(pickle.dumps(shares)) == shares


def test_a_long_record_is_one_document_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(blocks_module, "MAX_LINE_BYTES", 32)
    texts = ["short", "a long line " * 40 + "\n\nend", "last \ud800!"]
    (tmp_path / "a.jsonl").write_bytes(json_lines(texts))
    parts = find_inputs([str(tmp_path / "a.jsonl")]).parts
    assert documents(parts) == [*texts[:2], "last \ufffd!"]
    blocks = list(parts[0].read())
    assert max(block.num_text_bytes for block in blocks) <= 128
    assert sum(block.num_repairs for block in blocks) == 1


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_column_that_is_there_twice_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    table = pyarrow.Table.from_arrays([["one"], ["two"]], names=["text", "text"])
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(UserError, match=r"has more than one column 'text' \(--text_column\)"):
        documents(find_inputs([str(path)]).parts)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", json_lines() + b'{"text": 1', "line 11, which is not valid JSON"),
        (
            "a.jsonl",
            json_lines() + b'{"text": "kept", "text": "lost"}\n',
            "line 11, which is not valid JSON: duplicate key 'text'",
        ),
        ("a.jsonl", b"[1]\n", "line 1, which must be a JSON object, and is an array"),
        (
            "a.jsonl",
            json_lines(field="texts"),
            "line 1 has no field 'text' (--text_field); its ",
        ),
        ("a.jsonl", json_lines(field="texts"), "Did you mean 'texts'?"),
        (
            "a.jsonl",
            b'\n{"text": 5}\n',
            "line 2: the field 'text' (--text_field) must be text",
        ),
        ("a.jsonl", b"", "all 1 files are empty"),
        ("a.parquet", b"", "is not a complete Parquet file"),
        ("a.parquet", b"PAR1 not really", "is not a complete Parquet file"),
        # Without the time: workers name a test by its parameters, and collect alike.
        ("a.jsonl.gz", gzip.compress(json_lines() * 9, mtime=0)[:-9], "not a complete gzip"),
        ("a.txt.zst", zstandard.compress(bytes(range(256)) * 99)[:-9], "is truncated"),
        ("a.txt.zst", b"not zstd at all", "is not a complete zstd file"),
        ("a.txt", "\ufefftext".encode("utf-16-le"), "is UTF-16"),
        ("a.jsonl", '\ufeff{"text": "a"}'.encode("utf-16-le"), "is UTF-16"),
        ("a.txt", "text".encode("utf-32"), "is UTF-32 (iconv -f UTF-32"),
        ("a.txt", "A text.\n".encode("utf-16-le"), "many of its bytes are NUL"),
        ("a.txt.gz", gzip.compress("A text.".encode("utf-16-be"), mtime=0), "bytes are NUL"),
        ("a.txt", gzip.compress(b"text", mtime=0), "is compressed with gzip (.gz belongs"),
        ("a.txt", zstandard.compress(b"text"), "is compressed with zstd"),
        ("a.jsonl", bz2.compress(b"text" * 99), "is compressed with bzip2"),
        ("a.txt", b"PK\x03\x04\x14", "is a ZIP archive"),
        ("a.txt", b"%PDF-1.7\n", "is a PDF"),
        ("a.txt", b"one\rtwo\r", "its lines end in carriage returns (CR), not in line feeds"),
        ("a.TXT", b"text", "Did you mean '.txt'?"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"--input.*{re.escape(message)}") as error:
        documents(find_inputs([str(tmp_path / name)]).parts)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_text_that_begins_like_another_format_is_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"PAR1 of the text\n")
    (tmp_path / "b.txt").write_bytes(b"BZh\n")
    (tmp_path / "c.txt").write_bytes(b"one \0 two\n")
    (tmp_path / "d.txt").write_bytes(b"one\rtwo")
    long = b"word " * 400 + b"\r\r" + b"word " * 400
    (tmp_path / "e.txt").write_bytes(long)
    found = documents(find_inputs([str(tmp_path)]).parts)
    assert found == ["PAR1 of the text", "BZh", "one \0 two", "one\rtwo", long.decode()]


def test_damage_inside_of_a_parquet_file_is_one_line(tmp_path):
    write_parquet(tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[115:145] = b"\xff" * 30
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UnreadableError, match=r"cannot be read: .*thrift") as error:
        documents(find_inputs([str(tmp_path)]).parts)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
def test_a_file_that_became_shorter_is_refused(tmp_path, suffix):
    """Another program may write it again while it is read."""
    path = tmp_path / f"a{suffix}"
    content = json_lines().replace(b"\n", b"\n\n")
    path.write_bytes(content)
    (whole,) = find_inputs([str(path)]).parts
    first, second = whole.split(whole.weight // 2, True)
    path.write_bytes(content[: first.end])
    assert documents([first])
    for part in (whole, second, whole.split(first.end + 1, True)[0]):
        with pytest.raises(UnreadableError, match=rf"a{suffix} .* cannot be read: .* shorter"):
            documents([part])


def test_links_to_files_are_read_once_and_told(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").symlink_to("a.txt")
    (tmp_path / "c.txt").hardlink_to(tmp_path / "a.txt")
    corpus = find_inputs([str(tmp_path), f"{tmp_path}/a*"])
    assert documents(corpus.parts) == ["one"]
    messages = []
    print_left_out(corpus, None, messages.append)
    assert messages == [
        "2 links to files that are read once, under another name: "
        f"{tmp_path}/b.txt, {tmp_path}/c.txt"
    ]
    assert not find_inputs([f"{tmp_path}/a.txt", f"{tmp_path}/a*"]).links


@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_of_links_to_a_folder_is_followed(tmp_path, monkeypatch, reverse):
    (tmp_path / "z").mkdir()
    (tmp_path / "z/x.txt").write_text("one\n")
    (tmp_path / "a").symlink_to("z")
    walk = os.walk

    def in_order(*arguments, **options):
        # As another file system may list them.
        for parent, directories, names in walk(*arguments, **options):
            directories.sort(reverse=reverse)
            yield parent, directories, names

    monkeypatch.setattr(os, "walk", in_order)
    (part,) = find_inputs([str(tmp_path)]).parts
    assert part.path == tmp_path / "a/x.txt"


def test_the_vocabulary_in_the_folder_of_the_text_is_not_read(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "link.txt").symlink_to("vocab.txt")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/vocab.txt").write_text("[PAD]\n")
    vocabularies = [tmp_path / "link.txt"]
    for corpus in (
        find_text(tmp_path, (), vocabularies=vocabularies),
        find_text(None, [f"{tmp_path}/a.txt", f"{tmp_path}"], vocabularies=vocabularies),
    ):
        assert documents(corpus.parts) == ["one"]
        messages = []
        print_left_out(corpus, tmp_path, messages.append)
        assert messages == [
            "Ignored the vocabulary in the folder of the text: link.txt, model/vocab.txt, "
            "vocab.txt"
        ]
    with pytest.raises(UserError, match=r"--input: the only file is a vocabulary"):
        find_text(None, [f"{tmp_path}/vocab.txt"], vocabularies=vocabularies)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(UserError, match=r"contains no .txt or .txt.gz files, only 3 other"):
        find_text(tmp_path, (), vocabularies=vocabularies)


def test_another_vocabulary_in_the_folder_of_the_text_is_warned_of(tmp_path, capsys):
    """Such as that of an earlier model: its entries would be a document."""
    warn_once.cache_clear()
    (tmp_path / "a.txt").write_text("[CLS] and [SEP] and [MASK]\n")
    bert = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    (tmp_path / "bert.txt").write_bytes(bert.read_bytes())
    assert len(find_text(tmp_path, ()).parts) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}/bert.txt has [CLS], [SEP] and [MASK] in lines of their own" in said
    assert f"{tmp_path}/a.txt" not in said


def test_a_record_that_is_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("pretrain_data.corpus.readers.json_lines.MAX_RECORD_BYTES", 20)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "' + "b" * 20 + '"}\n')
    with pytest.raises(UserError, match=r"a\.jsonl .*bad line 2, which is longer than 20 b"):
        documents(find_inputs([str(tmp_path / "a.jsonl")]).parts)


def test_no_input_is_refused():
    with pytest.raises(UserError, match="--input names no file, glob or folder"):
        find_inputs([])


def test_a_bad_line_of_a_divided_file_has_its_number(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines() + b"bad\n")
    _, rest = divide(find_inputs([str(tmp_path)]).parts, 2, split_at_documents=True)
    with pytest.raises(UnreadableError, match=r"bad line 11, which"):
        documents(rest)


def test_a_parquet_column_must_be_there_and_text(tmp_path):
    write_parquet(tmp_path / "a.parquet", column="content")
    with pytest.raises(UserError, match=r"a\.parquet .*no column 'contnt' .*mean 'content'"):
        find_inputs([str(tmp_path)], FormatOptions(text_column="contnt"))
    with pytest.raises(UserError, match=r"'id' \(--text_column\) must be text, .* type int64"):
        find_inputs([str(tmp_path)], FormatOptions(text_column="id"))
    write_parquet(tmp_path / "a.parquet", texts=["x", None, "y"], use_dictionary=True)
    assert documents(find_inputs([str(tmp_path)]).parts) == ["x", "y"]


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
def test_nulls_are_counted_and_are_no_documents(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", block_bytes)
    texts = [None, "one", None, "", "two words", None, None]
    (tmp_path / "a.jsonl").write_bytes(json_lines(texts))
    write_parquet(tmp_path / "b.parquet", texts)
    for part in find_inputs([str(tmp_path)]).parts:
        assert documents([part]) == ["one", "two words"]
        assert sum(block.num_nulls for block in part.read()) == 4


def test_a_missing_package_is_one_line(files, monkeypatch):
    for module, name in (("zstandard", "e.txt.zst"), ("pyarrow", "d.parquet")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(UserError, match=rf"needs {module}, .*electra-tf\[corpus\]"):
            find_inputs([str(files / name)])


@dataclasses.dataclass(frozen=True)
class _UpperPart:
    path: object
    num_disk_bytes: int
    is_divisible = False

    @property
    def weight(self):
        return self.num_disk_bytes

    def read(self):
        with open(self.path, "rb") as raw:
            for block in read_blocks(raw, str(self.path), raw):
                lines = [line.upper() for line in block.lines]
                yield dataclasses.replace(block, lines=lines)


def test_a_new_format_is_a_class_and_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(
        formats.FORMATS, ".loud", lambda path, size, options: _UpperPart(path, size)
    )
    (tmp_path / "a.loud").write_text("hear\n\nthis\n")
    assert documents(find_inputs([f"{tmp_path}/*.loud"]).parts) == ["HEAR", "THIS"]


def test_names_that_look_like_patterns_mean_themselves(tmp_path):
    for name in ("v[1]/a.txt", "v1/b.txt", "one, two/c.txt", "plain/d,e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")

    def read(value: str) -> list[str]:
        return documents(find_inputs(split_patterns(value)).parts)

    for pattern in ("v[1]", "v[1]/*.txt", "v[1]/**/*.txt", "v[1]/a.txt"):
        assert read(f"{tmp_path}/{pattern}") == ["v[1]/a.txt"]
    assert read(f"{tmp_path}/v[12]/*") == ["v1/b.txt"]
    both = f"{tmp_path}/one, two/*.txt, {tmp_path}/plain/d,e.txt"
    assert read(both) == ["one, two/c.txt", "plain/d,e.txt"]


def test_remote_globs_that_cannot_be_listed_name_their_flag():
    with pytest.raises(UserError, match=r"^--input: none://b/\*\.txt .*no file system none://"):
        matching_paths(as_path("none://b/*.txt"), "--input")
    with pytest.raises(UserError, match=r"remote globs have no \*\*; name the folder instead"):
        matching_paths(as_path("none://b/**/*.txt"), "--input")


def test_a_name_of_the_text_of_a_format_without_files_is_warned_of(files, capsys):
    parts = find_inputs([str(files)]).parts
    warn_of_unused_names(parts, "body", "article")
    of_text = [part for part in parts if part.path.suffix == ".txt"]
    warn_of_unused_names(of_text, "text", "text")
    assert not capsys.readouterr().err
    warn_of_unused_names(of_text, "body", "article")
    warned = capsys.readouterr().err
    assert "--text_field=body has no effect: the text is not in JSONL files" in warned
    assert "--text_column=article has no effect" in warned
