"""Tests of corpora and records on a remote file system: `ram://`, in this process."""

import dataclasses
import gzip
import json
import shutil
import uuid
from collections import Counter

import pytest
import tensorflow as tf
from absl import flags as absl_flags

from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError
from electra_tf.util.paths import as_path, open_binary
from flags import corpus
from flags.command_line import parsing
from pretrain_data.build.dataset import build_pretraining_data
from pretrain_data.corpus.inputs import find_inputs
from pretrain_data.records.manifest import HELD_OUT_DIR, load_manifest
from pretrain_data.records.source import RecordFiles
from pretrain_data.vocabulary.config import VocabularyBuildConfig
from pretrain_data.vocabulary.vocabulary_builder import build_vocabulary
from tests.pretrain_data.conftest import corpus_text


@pytest.fixture
def remote() -> str:
    """A folder of a remote file system."""
    folder = f"ram://tests/{uuid.uuid4().hex}"
    tf.io.gfile.makedirs(folder)
    return folder


def upload(source, target: str) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            name = f"{target}/{path.relative_to(source)}"
            tf.io.gfile.makedirs(name.rpartition("/")[0])
            tf.io.gfile.copy(str(path), name)


def build(folder: str, vocab_file: object, name: str = "records", **flags: object):
    """Builds as the program does, from FOLDER/text to FOLDER/NAME."""
    flag_values = absl_flags.FlagValues()
    corpus.define_corpus_flags(flag_values)
    given = {"input": f"{folder}/text", "output_dir": f"{folder}/{name}", "num_out_files": 3}
    given |= {"vocab_file": vocab_file, "max_seq_length": 32} | flags
    arguments = [f"--{flag}={value}" for flag, value in given.items()]
    parsing.parse(["build", *arguments], corpus.ALIASES, flag_values)
    return build_pretraining_data(corpus.corpus_build_config(flag_values), lambda message: None)


def records(folder: str) -> Counter:
    files = sorted(tf.io.gfile.glob(f"{folder}/pretrain_data.tfrecord*"))
    return Counter(tf.data.TFRecordDataset(files).as_numpy_iterator())


@pytest.fixture
def text(tmp_path):
    directory = tmp_path / "text"
    (directory / "below").mkdir(parents=True)
    (directory / "a.txt").write_text(corpus_text(1, num_documents=50))
    (directory / "b.txt.gz").write_bytes(gzip.compress(corpus_text(2, 9).encode()))
    lines = [json.dumps({"text": corpus_text(i % 5, 1)}) for i in range(20)]
    (directory / "below/c.jsonl").write_text("\n".join(lines))
    (directory / ".hidden.txt").write_text("hidden")
    return directory


def test_remote_text_vocabulary_and_records_are_like_local_ones(
    text, tmp_path, remote, demo_vocab_file, vocabulary
):
    settings = {"eval_fraction": 0.2, "deduplicate": "exact", "seed": 4}
    here = build(str(tmp_path), demo_vocab_file, **settings)
    upload(text, f"{remote}/text")
    tf.io.gfile.copy(str(demo_vocab_file), f"{remote}/vocab.txt")
    there = build(remote, f"{remote}/vocab.txt", **settings)
    assert load_manifest(f"{remote}/records") == there
    assert there.shard_sha256 == here.shard_sha256
    assert there.num_documents == here.num_documents
    for name in ("records", f"records/{HELD_OUT_DIR}"):
        assert records(f"{remote}/{name}") == records(f"{tmp_path}/{name}") != Counter()
    assert load_vocabulary(f"{remote}/vocab.txt").sha256 == vocabulary.sha256
    names = tf.io.gfile.listdir(f"{remote}/records")
    assert sorted(name.rstrip("/") for name in names) == sorted(
        [*there.shards, "pretrain_data.json", HELD_OUT_DIR]
    )
    files = RecordFiles(patterns={32: f"{remote}/records/pretrain_data.tfrecord*"})
    tokenizer = TokenizerDescription(vocab_sha256=vocabulary.sha256)
    files.check(vocabulary, tokenizer, [32])
    assert files.num_examples(32) == there.num_examples

    with pytest.raises(UserError, match=r"is not empty: it contains"):
        build(remote, demo_vocab_file)
    again = build(remote, demo_vocab_file, overwrite=True)
    assert again.num_examples > there.num_examples
    assert not tf.io.gfile.exists(f"{remote}/records/{HELD_OUT_DIR}")


def test_remote_parquet_and_arrow_are_read(tmp_path, remote):
    arrow = pytest.importorskip("pyarrow", reason="needs electra-tf[corpus]")
    import pyarrow.parquet

    table = arrow.table({"text": ["one\ntwo", "three"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with arrow.ipc.new_stream(str(tmp_path / "b.arrow"), table.schema) as writer:
        writer.write_table(table)
    upload(tmp_path, remote)
    for name in ("a.parquet", "b.arrow"):
        (part,) = find_inputs([f"{remote}/{name}"]).parts
        assert [line for block in part.read() for line in block.lines] == [
            "one",
            "two",
            "three",
        ]


def test_a_vocabulary_is_reported_on_remote_text(tmp_path, remote):
    for name in "ab":
        tf.io.gfile.makedirs(f"{remote}/{name}")
        with tf.io.gfile.GFile(f"{remote}/{name}/{name}.txt", "w") as file:
            file.write(corpus_text(1, num_documents=4))
    config = VocabularyBuildConfig(
        None, tmp_path / "vocab.txt", 60, inputs=(f"{remote}/a",), report=(f"{remote}/b",)
    )
    messages = []
    build_vocabulary(config, messages.append)
    assert any("pieces per word" in message for message in messages)
    same = dataclasses.replace(config, overwrite=True, report=(f"{remote}/a/a.txt",))
    with pytest.raises(UserError, match=r"a\.txt \(--report\) is part of the text to train"):
        build_vocabulary(same, messages.append)


def test_globs_and_what_is_missing(text, remote, demo_vocab_file):
    upload(text, f"{remote}/text")
    found = find_inputs([f"{remote}/text/*.txt*", f"{remote}/text/a.txt"])
    assert [part.path.name for part in found.parts] == ["a.txt", "b.txt.gz"]
    for entry, message in (
        ("text/none.txt", "none.txt does not exist"),
        ("none/*.txt", "no file matches"),
        ("text/**/*.txt", r"remote globs have no \*\*"),
    ):
        with pytest.raises(UserError, match=message):
            find_inputs([f"{remote}/{entry}"])
    with pytest.raises(UserError, match=r"Vocabulary file ram://.* does not exist"):
        build(remote, f"{remote}/none.txt")


def test_a_file_system_that_tensorflow_lacks_is_named(text, tmp_path, remote, demo_vocab_file):
    message = r"TensorFlow has no file system nope:// here"
    with pytest.raises(UserError, match=f"--input: nope://x .*{message}"):
        find_inputs(["nope://x"])
    with pytest.raises(UserError, match=message):
        build(str(tmp_path), "nope://x/vocab.txt")
    with pytest.raises(UserError, match=f"--output-dir.* cannot be read: {message}"):
        build(str(tmp_path), demo_vocab_file, output_dir="nope://x/records")


def test_no_permission_is_one_line(text, remote, demo_vocab_file, monkeypatch):
    upload(text, f"{remote}/text")
    upload(text, f"{remote}/secret")

    def refuse(path):
        raise tf.errors.PermissionDeniedError(None, None, f"403 for {path}\nmore")

    monkeypatch.setattr(tf.io.gfile, "listdir", refuse)
    with pytest.raises(UserError, match=r"secret \(--input\) cannot be read: no permission: 4"):
        find_inputs([f"{remote}/secret"])
    assert find_inputs([f"{remote}/secret", f"{remote}/text/a.txt"], skip_unreadable=True)


def test_remote_paths_are_like_local_ones(tmp_path, remote):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt.gz").write_bytes(bytes(range(200)) + b"line\nrest")
    upload(tmp_path, remote)
    path, local = as_path(f"{remote}/a/b.txt.gz"), tmp_path / "a/b.txt.gz"
    for name in ("name", "suffix", "suffixes", "stem"):
        assert getattr(path, name) == getattr(local, name)
    assert path.parent == as_path(f"{remote}/a/")
    assert path.with_name("c").name == "c"
    assert (path.is_file(), path.parent.is_dir(), path.is_dir()) == (True, True, False)
    with open_binary(path) as there, open_binary(local) as here:
        for seek, read in ((0, 5), (190, 15), (3, -1)):
            there.seek(seek)
            here.seek(seek)
            assert there.read(read) == here.read(read)
            assert there.tell() == here.tell()
        there.seek(-4, 2)
        assert there.read() == b"rest"
    with pytest.raises(FileNotFoundError):
        open_binary(f"{remote}/none")
    path.rename(path.with_name("moved"))
    assert [each.name for each in path.parent.iterdir()] == ["moved"]
    path.parent.remove_tree()
    assert not path.parent.exists()
    shutil.rmtree(tmp_path / "a")
