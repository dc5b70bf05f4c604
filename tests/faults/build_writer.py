"""Records that replace others, for `tests.faults.writers`."""

import dataclasses
import functools
import pathlib

from electra_tf.text.framing import frame
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.util.errors import UserError
from pretrain_data.build.output_dir import TemporaryDir, lock_output_dir, publish
from pretrain_data.examples.example_writer import ExampleWriter
from pretrain_data.records.bad_records import iterate_records
from pretrain_data.records.checks import check_records
from pretrain_data.records.files import file_sha256, find_record_files
from pretrain_data.records.manifest import HELD_OUT_DIR, Manifest, load_manifest
from tests.conftest import ROOT

LENGTH = 16
FLAG = "--output-dir"


@functools.cache
def demo_vocabulary() -> Vocabulary:
    """Returns that of the demo."""
    return load_vocabulary(ROOT / "demo/vocab.txt")


def write_shards(folder: pathlib.Path, version: int, num_shards: int = 2) -> Manifest:
    """Writes records whose ids tell their version; returns their manifest."""
    vocabulary = demo_vocabulary()
    writer = ExampleWriter(folder, range(num_shards), num_shards, LENGTH, vocabulary.size)
    writer.write([frame(vocabulary, [100 * version + i] * (5 + i % 3)) for i in range(8)])
    shards = writer.close()
    return Manifest(
        max_seq_length=LENGTH,
        num_examples=sum(shards.values()),
        shards=shards,
        shard_bytes={name: (folder / name).stat().st_size for name in shards},
        shard_sha256={name: file_sha256(str(folder / name)) for name in shards},
        num_documents=8,
        num_lines=8,
        num_text_bytes=80,
        invalid_utf8={},
        vocab_size=vocabulary.size,
        vocab_sha256=vocabulary.sha256,
        do_lower_case=True,
        strip_accents=True,
        blanks_separate_docs=True,
        shuffle_files=True,
        seed=version,
        num_processes=1,
    )


def build(folder: pathlib.Path, version: int) -> None:
    """Does what a build does once it has read its text."""
    output = folder / "records"
    with lock_output_dir(output, FLAG), TemporaryDir(output, FLAG) as temporary:
        manifest = write_shards(temporary, version)
        held_out = temporary / HELD_OUT_DIR
        held_out.mkdir()
        of_held_out = dataclasses.replace(write_shards(held_out, version, 1), held_out=True)
        publish(manifest, of_held_out, temporary, output, FLAG)


def records(folder: pathlib.Path) -> list[bytes]:
    """Returns all records in a folder, after the checks of a training.

    Raises:
        UserError: they are missing, damaged or incomplete.
    """
    pattern = str(folder / "pretrain_data.tfrecord*")
    manifest = load_manifest(folder)
    if manifest is not None:
        tokenizer = manifest.tokenizer_description
        check_records(pattern, LENGTH, vocabulary=demo_vocabulary(), tokenizer=tokenizer)
    found = []
    for path in find_record_files(pattern):
        for record, _, problem in iterate_records(path):
            if problem:
                raise UserError(str(problem))
            found.append(record)
    return found


@functools.cache
def _expected(version: int, num_shards: int) -> tuple[int, ...]:
    vocabulary = demo_vocabulary()
    ids = [(100 * version + i, 5 + i % 3) for i in range(8)]
    order = [i for shard in range(num_shards) for i in range(shard, 8, num_shards)]
    framed = [frame(vocabulary, [ids[i][0]] * ids[i][1]).input_ids for i in order]
    return tuple((*each, *[0] * (LENGTH - len(each))) for each in framed)


def _ids(record: bytes) -> tuple[int, ...]:
    import tensorflow as tf

    features = tf.train.Example.FromString(record).features.feature
    return tuple(features["input_ids"].int64_list.value)


def read(folder: pathlib.Path) -> str:
    """Says which version there is; "others" is a mixture, or a part of one."""
    output = folder / "records"
    if not output.is_dir() or not list(output.glob("pretrain_data*")):
        return "none"
    found = [tuple(map(_ids, records(each))) for each in (output, output / HELD_OUT_DIR)]
    for version, name in ((1, "old"), (2, "new")):
        if found == [_expected(version, 2), _expected(version, 1)]:
            return name
    return "others"


FIRST = (lambda folder: None, lambda folder: build(folder, 2), read)
AGAIN = (lambda folder: build(folder, 1), lambda folder: build(folder, 2), read)
