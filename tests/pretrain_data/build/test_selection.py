"""Tests of holding documents out and of leaving duplicates out."""

import gzip
import json
import pathlib
import pickle
import random

import pytest

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from flags.records import held_out_records
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.drivers import local_run
from pretrain_data.build.selection import (
    DUPLICATE,
    HELD_OUT,
    NEAR_DUPLICATE,
    TRAINED_ON,
    ScanJob,
    scan_documents,
    select_documents,
)
from pretrain_data.build.units import Unit
from pretrain_data.corpus.inputs import find_inputs
from pretrain_data.corpus.partition import divide
from pretrain_data.corpus.unreadable import UnreadableError
from pretrain_data.parallel import processes
from pretrain_data.parallel.counts import WorkerError
from pretrain_data.records.manifest import load_manifest


def fates(
    path,
    eval_fraction=0.0,
    deduplicate="none",
    num_processes=1,
    blanks=True,
    skip_unreadable=False,
):
    parts = find_inputs([str(path)]).parts
    shares = divide(parts, num_processes, blanks, whole_documents=True)
    units = [Unit(index, tuple(share)) for index, share in enumerate(shares)]
    nowhere = pathlib.Path()
    config = CorpusBuildConfig(
        None,
        nowhere,
        nowhere,
        blanks_separate_docs=blanks,
        deduplicate=deduplicate,
        skip_unreadable=skip_unreadable,
    )
    hashes = scan_documents(ScanJob(0, units, config), lambda counts: None)
    return b"".join(select_documents(hashes, eval_fraction, deduplicate, 0.8))


def test_the_same_documents_are_held_out_when_the_corpus_grows(tmp_path):
    documents = [f"document {i}\nof two lines\n" for i in range(300)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(documents[:200]))
    before = fates(path, 0.2)
    path.write_text("\n".join(documents[200:] + documents[:200]))
    after = fates(path, 0.2)
    assert after[100:] == before
    assert 0.1 < before.count(HELD_OUT) / 200 < 0.3
    assert [fates(path, 0.2, num_processes=n) for n in (2, 3)] == [after, after]
    more = fates(path, 0.5)
    assert all(new == HELD_OUT for old, new in zip(after, more, strict=True) if old == HELD_OUT)
    # As a record, the same document has the same fate.
    lines = [json.dumps({"text": text}) for text in documents[:200]]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert fates(tmp_path / "a.jsonl", 0.2) == before


def test_a_crash_while_reading_names_the_file(tmp_path, monkeypatch):
    def fail(*_):
        raise IndexError("boom")

    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    monkeypatch.setattr("pretrain_data.build.selection._Scan.add_line", fail)
    message = rf"Reading failed in {tmp_path}/a\.txt: IndexError\('boom'\)"
    with pytest.raises(WorkerError, match=message):
        fates(tmp_path / "a.txt", 0.2)


def test_a_damaged_file_is_skipped_or_named(tmp_path):
    text = gzip.compress(b"\n\n".join(b"%d" % i for i in range(100_000)), mtime=0)
    (tmp_path / "a.txt.gz").write_bytes(text[: len(text) // 2])
    (tmp_path / "b.txt").write_text("one\n\ntwo\n")
    with pytest.raises(UnreadableError, match=f"{tmp_path}/a.txt.gz "):
        fates(tmp_path, 0.2)
    readable = gzip.decompress(text)[: 100 * 1024]
    found = fates(tmp_path, 0.2, skip_unreadable=True)
    (tmp_path / "a.txt.gz").unlink()
    (tmp_path / "a.txt").write_bytes(readable[: readable.rindex(b"\n") + 1])
    # The documents before the damage, and those of the other file.
    whole = fates(tmp_path / "a.txt", 0.2)
    assert whole in found
    assert len(found) > len(whole) + len(fates(tmp_path / "b.txt", 0.2))


@pytest.mark.parametrize("documents", [["a"], ["a", "b", "c"]])
def test_a_corpus_that_changes_after_the_first_pass_is_refused(
    build, corpus_dir, tmp_path, monkeypatch, documents
):
    """Otherwise, the documents would have the fates of others."""
    (corpus_dir / "a.txt.gz").write_bytes(gzip.compress(b"a\n\nb\n"))

    def changing(*arguments):
        (corpus_dir / "a.txt.gz").write_bytes(gzip.compress("\n\n".join(documents).encode()))
        return select_documents(*arguments)

    monkeypatch.setattr(local_run, "select_documents", changing)
    with pytest.raises(UserError, match="corpus has changed since its documents were hashed"):
        build(deduplicate="exact")
    assert not (tmp_path / "records").exists()


def test_the_first_of_equal_documents_is_kept(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\nthree\n\none\ntwo\n\n\none two\n\nthree")
    expected = bytes([TRAINED_ON, TRAINED_ON, DUPLICATE, TRAINED_ON, DUPLICATE])
    for num_processes in (1, 2, 4):
        assert fates(path, deduplicate="exact", num_processes=num_processes) == expected
    path.write_text("\n \n")
    assert fates(path, 0.5, "exact") == b""


def test_a_document_is_the_same_in_every_text_file_and_record(tmp_path):
    """Else a copy that an editor has saved would be trained on, and the other held out."""
    documents = ["one\ntwo\n\n", "three\n\n"]
    text = "".join(documents)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    records = ["one\ntwo", "three\n", "one\r\ntwo\r\n", "\ufeffthree"]
    lines = [json.dumps({"text": each}) + "\n" for each in records]
    (tmp_path / "c.jsonl").write_text("".join(lines))
    once = bytes([TRAINED_ON] * 2)
    assert fates(tmp_path, deduplicate="exact") == once + bytes([DUPLICATE] * 6)
    # Other white space is text.
    (tmp_path / "d.txt").write_text("one \ntwo\n")
    assert fates(tmp_path, deduplicate="exact")[-1:] == bytes([TRAINED_ON])


def test_the_size_of_documents_is_that_in_their_file(tmp_path):
    """A record has no end of line after its last line."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nthree\n")
    long = "word " * 300_000  # in several blocks
    texts = ["one\ntwo", "three\n", "", "\u4e00\n\n", long, "\n"]
    lines = [json.dumps({"text": each}) + "\n" for each in texts]
    (tmp_path / "b.jsonl").write_text("".join(lines))
    units = [Unit(0, find_inputs([str(tmp_path)]).parts)]
    config = CorpusBuildConfig(None, tmp_path, tmp_path)
    (hashes,) = scan_documents(ScanJob(0, units, config), lambda counts: None)
    sizes = [3 + 5 + 4, 6, *(len(text.encode()) for text in texts if text.strip())]
    sizes[4] -= 1  # its second end of line ends a blank line
    assert hashes.text_bytes.tolist() == sizes


def test_similar_documents_are_left_out_whatever_the_number_of_processes(tmp_path):
    pytest.importorskip("datasketch", reason="needs electra-tf[corpus]")
    rng = random.Random(0)
    documents = []
    for i in range(40):
        words = [f"w{rng.randrange(999)}" for _ in range(150)]
        documents.append(" ".join(words))
        if i % 2:
            words[rng.randrange(150)] = "changed"
            documents.append("\n".join(words))
        if i % 4 == 0:
            documents.append(documents[0])
    documents.append("!")
    rng.shuffle(documents)
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    results = [fates(tmp_path, 0.2, "near", num_processes) for num_processes in (1, 2, 5)]
    assert results[0] == results[1] == results[2]
    counts = [results[0].count(fate) for fate in range(4)]
    assert counts[DUPLICATE] == 10
    assert counts[NEAR_DUPLICATE] == 20
    assert counts[TRAINED_ON] + counts[HELD_OUT] == 41
    assert fates(tmp_path, 0.2, "exact").count(DUPLICATE) == 10


def test_a_build_without_near_duplicates_counts_them(build, corpus_dir):
    pytest.importorskip("datasketch", reason="needs electra-tf[corpus]")
    text = (corpus_dir / "a.txt").read_text()
    (corpus_dir / "copy.txt").write_text(text + "\n\nnew\n\n" + text.upper())
    printed = []
    settings = {"deduplicate": "near", "near_duplicate_words": 3, "print_fn": printed.append}
    manifest = build(**settings)
    assert (manifest.num_duplicates, manifest.num_near_duplicates) == (4, 4)
    assert manifest.num_documents == 13
    assert manifest.near_duplicates == {"threshold": 0.8, "words": 3, "permutations": 128}
    assert manifest.num_tokens_read - manifest.num_tokens_written == sum(
        manifest.dropped_tokens.values()
    )
    assert any(line.startswith("Left out 4 near-duplicate documents (") for line in printed)
    assert any(f"from 13 of 21 documents ({manifest.num_lines} lines," in p for p in printed)
    with pytest.raises(UserError, match="--near_duplicate_threshold must be above 0"):
        build(deduplicate="near", near_duplicate_threshold=0.0, overwrite=True)


def test_a_file_without_blank_lines_is_not_split_inside_of_a_document(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n" * 40)
    for num_processes in (1, 3):
        assert len(fates(tmp_path, num_processes=num_processes, blanks=False)) == 1


def test_what_is_held_out_has_records_and_counts_of_its_own(build, corpus_dir, tmp_path):
    (corpus_dir / "copy.txt").write_text((corpus_dir / "a.txt").read_text())
    plain = build(shuffle_files=False)
    printed = []
    train = build(
        eval_fraction=0.3,
        deduplicate="exact",
        shuffle_files=False,
        overwrite=True,
        print_fn=printed.append,
    )
    held_out = load_manifest(tmp_path / "records/held_out")
    assert held_out.held_out
    assert not train.held_out
    assert 0 < held_out.num_documents < 12
    assert (train.num_duplicates, held_out.num_duplicates) == (4, 0)
    assert train.num_documents + held_out.num_documents == 12
    assert train.num_lines + held_out.num_lines == plain.num_lines
    assert train.num_tokens_read + held_out.num_tokens_read == plain.num_tokens_read
    assert train.num_tokens_read - train.num_tokens_written == sum(
        train.dropped_tokens.values()
    )
    assert held_out.num_tokens_read == held_out.num_tokens_written > 0
    assert any("Left out 4 duplicate documents" in line for line in printed)
    assert any(f"Held out {held_out.num_documents} doc" in line for line in printed)
    for name in held_out.shards:
        assert (tmp_path / "records/held_out" / name).is_file()
    build(overwrite=True)
    assert not (tmp_path / "records/held_out").exists()


def test_two_processes_hold_out_the_same_tokens(build, tmp_path, monkeypatch):
    def run_here(work, jobs, progress):
        sent = pickle.loads(pickle.dumps(jobs))
        return [pickle.loads(pickle.dumps(work(job, lambda counts: None))) for job in sent]

    monkeypatch.setattr(processes, "_run_in_processes", run_here)
    settings = {"eval_fraction": 0.3, "overwrite": True, "num_out_files": 4}
    counts = []
    for num_processes in (1, 2):
        train = build(num_processes=num_processes, **settings)
        held_out = load_manifest(tmp_path / "records/held_out")
        counts.append(
            [(m.num_documents, m.num_tokens_written, m.num_lines) for m in (train, held_out)]
        )
    assert counts[0] == counts[1]


def test_training_finds_the_held_out_records(build, tiny_data, tmp_path):
    def patterns(folder="records", **settings):
        pattern = str(tmp_path / folder / "pretrain_data.tfrecord*")
        config = PretrainingConfig(
            data_dir=str(tmp_path),
            model_name="m",
            pretrain_tfrecords=pattern,
            vocab_file=str(tiny_data / "vocab.txt"),
            max_seq_length=32,
            **settings,
        )
        records = held_out_records(config)
        return records and records.patterns[32]

    build()
    assert patterns() is None
    build(eval_fraction=0.3, overwrite=True)
    assert patterns() == str(tmp_path / "records/held_out/pretrain_data.tfrecord*")
    assert patterns("*") == patterns("rec[o]rds") == patterns()
    assert patterns(eval_tfrecords="") is None
    assert patterns(eval_tfrecords="other*") == "other*"


def test_a_fraction_that_holds_out_nothing_is_refused(build, tmp_path):
    build()
    before = sorted(tmp_path.joinpath("records").iterdir())
    for fraction, message in [(1e-9, "holds out none"), (0.9999999, "to train on")]:
        with pytest.raises(UserError, match=message):
            build(eval_fraction=fraction, overwrite=True)
    with pytest.raises(UserError, match="at least 0 and below 1"):
        build(eval_fraction=1.0, overwrite=True)
    assert sorted(tmp_path.joinpath("records").iterdir()) == before
