"""Tests of reading OpenWebText's archives."""

import io
import lzma
import tarfile

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from pretrain_data.build.dataset import CorpusBuildConfig, build_pretraining_data
from pretrain_data.corpus.readers.archives import ArchivePart, find_archives
from pretrain_data.corpus.unreadable import UnreadableError


def write_archive(path, members, compression: str = "xz") -> ArchivePart:
    """Writes a tar archive of (name, content) or `tarfile.TarInfo`."""
    with tarfile.open(path, f"w:{compression}") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return ArchivePart(path, path.stat().st_size)


def member(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info


def test_reads_every_file_of_an_archive(tmp_path):
    part = write_archive(
        tmp_path / "a.xz",
        [
            member("texts", tarfile.DIRTYPE),
            ("texts/1.txt", b"one\ntwo"),
            ("texts/empty.txt", b""),
            ("texts/2.txt", b"bad \xff\n"),
        ],
    )
    blocks = list(part.read())
    assert [block.lines for block in blocks] == [["one", "two"], [], ["bad \ufffd"]]
    assert all(block.ends_file for block in blocks)
    assert [block.num_repairs for block in blocks] == [0, 0, 1]
    assert blocks[2].path.endswith("a.xz:texts/2.txt")
    assert 0 < sum(block.num_disk_bytes for block in blocks) <= part.num_disk_bytes


@pytest.mark.parametrize(
    ("name", "compression"),
    [("a.tar", ""), ("a.tar.gz", "gz"), ("a.tgz", "gz"), ("a.tar.bz2", "bz2"), ("a.xz", "xz")],
)
def test_the_suffix_tells_the_compression(tmp_path, name, compression):
    random = np.random.default_rng(0).integers(32, 127, 5000).astype(np.uint8).tobytes()
    written = write_archive(tmp_path / name, [("1.txt", random), ("2.txt", b"b")], compression)
    (part,), unreadable = find_archives(tmp_path)
    assert (part, unreadable) == (written, {})
    assert part.weight == part.num_disk_bytes * (3 if compression else 1)
    lines = [line for block in part.read() for line in block.lines]
    assert lines == [random.decode(), "b"]
    content = part.path.read_bytes()
    for damaged in (content[:3000], content[: len(content) // 2] + b"x" * 99, b"no archive"):
        part.path.write_bytes(damaged)
        with pytest.raises(UnreadableError, match=rf"{name} \(--data-dir\) (is|cannot be)"):
            list(part.read())


@pytest.mark.parametrize(("name", "compression"), [("a.xz", "xz"), ("a.tar", "")])
def test_what_follows_the_end_of_an_archive_is_not_lost(tmp_path, name, compression):
    """Such as a second archive, joined by `cat`."""
    part = write_archive(tmp_path / name, [("1.txt", b"one")], compression)
    content = part.path.read_bytes()
    part.path.write_bytes(content * 2)
    blocks = part.read()
    assert next(blocks).lines == ["one"]
    with pytest.raises(UnreadableError, match=rf"{name} .* another archive, .* at byte 1,536"):
        next(blocks)
    if not compression:
        part.path.write_bytes(content + bytes(99_999))
        assert [block.lines for block in part.read()] == [["one"]]


def test_other_files_beside_archives_are_warned_of(tmp_path, capsys):
    write_archive(tmp_path / "a.xz", [("1.txt", b"a")])
    for name in ("README", "vocab.txt", ".hidden"):
        (tmp_path / name).touch()
    assert len(find_archives(tmp_path)[0]) == 1
    assert capsys.readouterr().err == (
        f"warning: {tmp_path}: 2 files are not archives: README, vocab.txt\n"
    )


@pytest.mark.parametrize(
    ("bad_member", "problem"),
    [
        (("../outside.txt", b"x"), r"'\.\./outside\.txt' would be extracted outside"),
        (("a/../../outside.txt", b"x"), "would be extracted outside"),
        (("/etc/passwd", b"x"), "would be extracted outside"),
        (("..\\outside.txt", b"x"), "would be extracted outside"),
        (("C:\\outside.txt", b"x"), "would be extracted outside"),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"), "is a link to '/etc/passwd'"),
        (member("link", tarfile.LNKTYPE, "a.txt"), r"is a link to 'a\.txt'"),
        (member("pipe", tarfile.FIFOTYPE), "is neither a file nor a folder"),
        (member("device", tarfile.CHRTYPE), "is neither a file nor a folder"),
    ],
)
def test_dangerous_members_are_refused(tmp_path, bad_member, problem):
    part = write_archive(tmp_path / "a.xz", [("good.txt", b"text\n"), bad_member])
    with pytest.raises(UserError, match=rf"Archive .*a\.xz \(--data-dir\): member .*{problem}"):
        list(part.read())


def test_damaged_archives_are_named(tmp_path):
    whole = write_archive(tmp_path / "a.xz", [("1.txt", bytes(range(256)) * 500)])
    content = whole.path.read_bytes()
    for damaged in (content[: len(content) // 2], b"no archive", b""):
        whole.path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"a\.xz \(--data-dir\) is not a complete \.xz tar"):
            list(whole.read())


def test_archives_that_cannot_be_read_are_named(tmp_path):
    whole = write_archive(tmp_path / "a.xz", [("x", b"text")])
    (tmp_path / "b.xz").symlink_to(tmp_path / "gone")
    problem = "cannot be read: No such file or directory"
    with pytest.raises(UnreadableError, match=f"^Archive {tmp_path}/b.xz .*{problem}"):
        find_archives(tmp_path)
    found, unreadable = find_archives(tmp_path, skip_unreadable=True)
    assert [part.path for part in found] == [whole.path]
    assert unreadable == {f"{tmp_path}/b.xz": problem}
    (tmp_path / "a.xz").unlink()
    with pytest.raises(UnreadableError, match=f"^Archive {tmp_path}/a.xz .*{problem}"):
        list(whole.read())


def test_missing_archives_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"openwebtext does not exist; --data-dir must be"):
        find_archives(tmp_path / "openwebtext")
    with pytest.raises(UserError, match=r"no archives \(\.xz, \.tar, \.gz, \.tgz, \.bz2\)"):
        find_archives(tmp_path)


def test_a_refused_member_leaves_older_data(tmp_path, demo_vocab_file):
    archives = tmp_path / "openwebtext"
    archives.mkdir()
    text = b"The boat was in the harbour.\n\nThe night was over.\n" * 20
    write_archive(archives / "a.xz", [("1.txt", text), ("2.txt", text)])
    config = CorpusBuildConfig(
        archives,
        demo_vocab_file,
        tmp_path / "pretrain_tfrecords",
        max_seq_length=32,
        blanks_separate_docs=False,
        is_openwebtext=True,
        overwrite=True,
    )
    manifest = build_pretraining_data(config, print_fn=lambda message: None)
    assert (manifest.num_documents, manifest.num_lines) == (2, 120)
    before = {p.name: p.read_bytes() for p in config.output_dir.iterdir()}
    write_archive(archives / "b.xz", [("3.txt", text), member("l", tarfile.SYMTYPE, "/")])
    with pytest.raises(UserError, match="is a link to"):
        build_pretraining_data(config, print_fn=lambda message: None)
    assert {p.name: p.read_bytes() for p in config.output_dir.iterdir()} == before


def test_a_damaged_or_missing_member_does_not_end_the_archive(tmp_path):
    """Text is lost only with an error."""
    path = tmp_path / "a.xz"
    texts = [(f"{name}.txt", f"{name}\n".encode() * 20) for name in "abc"]
    content = lzma.decompress(write_archive(path, texts).path.read_bytes())
    second = content.index(b"b.txt")
    generator = np.random.default_rng(0)

    def read(changed: bytes) -> list[str]:
        path.write_bytes(lzma.compress(changed, preset=0))
        return [line for block in ArchivePart(path, 1).read() for line in block.lines]

    expected = read(content)
    assert len(expected) == 60
    wrong_header = content[:second] + b"B" + content[second + 1 :]
    cut_between_members, cut_in_header = content[:second], content[: second + 100]
    negative = tarfile.TarInfo("b.txt")
    negative.size = -1
    header = negative.tobuf(tarfile.GNU_FORMAT)
    for damaged in (
        wrong_header,
        cut_between_members,
        cut_in_header,
        content[:second] + header + content[second + 512 :],
    ):
        with pytest.raises(UserError, match=r"a\.xz .* is not a complete \.xz tar archive"):
            read(damaged)
    for _ in range(200):
        changed = bytearray(content)
        changed[generator.integers(4096)] = generator.integers(256)
        del changed[generator.integers(1, 2 * len(changed)) :]
        try:
            lines = read(bytes(changed))
        except UserError:
            continue
        assert len(lines) >= 57  # characters of the texts may have changed
