"""Tests of the corpus builder and of its command lines."""

import contextlib
import dataclasses
import errno
import gzip
import io
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
import zstandard
from absl import flags as absl_flags

from electra_tf.model_builder import load_checked_vocabulary
from electra_tf.text.tokenizer_description import (
    TokenizerDescription,
    write_tokenizer_description,
)
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util import console
from electra_tf.util.console import ProgressBar, format_seconds, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from flags import pretraining
from flags.command_line import parsing
from flags.records import training_records
from pretrain_data.build import dataset
from pretrain_data.build.output_dir import INNER_LOCK_FILE, lock_output_dir
from pretrain_data.build.report import _records_flag, print_result
from pretrain_data.corpus.inputs import find_corpus
from pretrain_data.parallel.counts import WorkerError
from pretrain_data.records.checks import check_records
from pretrain_data.records.manifest import load_manifest, write_manifest
from tests.conftest import ROOT
from tests.electra_tf.text.plain_tokenizer import plain_tokenize
from tests.pretrain_data.conftest import corpus_text
from tests.pretrain_data.examples.plain_examples import plain_examples


def read_shards(directory: pathlib.Path) -> list[bytes]:
    """Records in the order in which one process wrote them."""
    num_shards = len(list(directory.glob("pretrain_data.tfrecord-*")))
    shards = [
        list(
            tf.data.TFRecordDataset(
                str(directory / f"pretrain_data.tfrecord-{i}-of-{num_shards}")
            ).as_numpy_iterator()
        )
        for i in range(num_shards)
    ]
    num_rounds = max(map(len, shards))
    return [shard[i] for i in range(num_rounds) for shard in shards if i < len(shard)]


def contents(directory: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def run_program(*arguments: object, program: str = "build_pretraining_dataset.py"):
    command = [sys.executable, str(ROOT / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_process_builds_the_examples_of_plain_python(
    build, corpus_dir, tmp_path, vocabulary
):
    manifest = build(seed=5, num_out_files=3, shuffle_files=False, authors_trimming=True)
    files = [corpus_dir / name for name in ("a.txt", "b.txt", "below/c.txt")]
    expected, _ = plain_examples(
        [path.read_text() for path in files],
        lambda text: plain_tokenize(text, vocabulary),
        vocabulary.cls_id,
        vocabulary.sep_id,
        32,
        seed=5,
        blanks_separate_docs=True,
    )
    records = read_shards(tmp_path / "records")
    assert len(records) == len(expected) == manifest.num_examples > 20
    for record, example in zip(records, expected, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        length = len(example["input_ids"])
        padding = [0] * (32 - length)
        assert features["input_ids"].int64_list.value == example["input_ids"] + padding
        assert features["segment_ids"].int64_list.value == example["segment_ids"] + padding
        assert features["input_mask"].int64_list.value == [1] * length + padding


def test_manifest_describes_the_data(build, corpus_dir, tmp_path, vocabulary):
    (corpus_dir / "d.txt.gz").write_bytes(gzip.compress(b"one \xff line\nsea\xfe\xfe\n"))
    messages = []
    manifest = build(seed=5, num_out_files=2, print_fn=messages.append)
    assert load_manifest(tmp_path / "records") == manifest
    assert (manifest.num_documents, manifest.num_lines) == (13, 3 * (4 * 6 + 3) + 2)
    assert manifest.invalid_utf8 == {"d.txt.gz": 3}
    assert "d.txt.gz: 3 invalid UTF-8 sequences were replaced with U+FFFD." in messages
    assert any("iconv -f WINDOWS-1252" in message for message in messages)
    assert (manifest.vocab_size, manifest.vocab_sha256) == (4096, vocabulary.sha256)
    sizes = {
        name: sum(1 for _ in tf.data.TFRecordDataset(str(tmp_path / "records" / name)))
        for name in ("pretrain_data.tfrecord-0-of-2", "pretrain_data.tfrecord-1-of-2")
    }
    assert manifest.shards == sizes
    assert "Next:     python run_pretraining.py" in messages[-1]


def test_tokens_are_counted_and_none_is_lost_unless_told(
    build, corpus_dir, tmp_path, vocabulary
):
    (corpus_dir / "a.txt").write_text("the sea. " * 500 + "\n")
    num_tokens = sum(
        len(plain_tokenize(line, vocabulary))
        for path in corpus_dir.rglob("*.txt")
        for line in path.read_text().split("\n")
    )
    messages = []
    manifest = build(num_processes=1, print_fn=messages.append)
    assert (manifest.num_tokens_read, manifest.num_tokens_written) == (num_tokens, num_tokens)
    assert f"Tokens:   {num_tokens:,} read, {num_tokens:,} written (100.0%); " in messages[-1]
    written = 0
    for record in read_shards(tmp_path / "records"):
        features = tf.train.Example.FromString(record).features.feature
        length = sum(features["input_mask"].int64_list.value)
        written += length - 2 - any(features["segment_ids"].int64_list.value)
    assert written == num_tokens

    manifest = build(authors_trimming=True, overwrite=True, print_fn=messages.append)
    assert manifest.num_tokens_read == num_tokens > manifest.num_tokens_written
    lost = manifest.dropped_tokens
    assert sum(lost.values()) == num_tokens - manifest.num_tokens_written
    assert lost["beyond the first segment"] > 1400
    assert f"{lost['beyond the first segment']:,} beyond the first segment" in messages[-1]


def test_unknown_tokens_are_counted_and_many_warned_of(build, corpus_dir, tmp_path, capsys):
    messages = []
    few = build(print_fn=messages.append)
    assert capsys.readouterr().err == ""
    (corpus_dir / "korean.txt").write_text("한국어 문장입니다 the sea\n" * 200)
    many = build(overwrite=True, eval_fraction=0.3, print_fn=messages.append)
    held_out = load_manifest(tmp_path / "records" / "held_out")
    assert many.num_unknown + held_out.num_unknown == few.num_unknown + 2 * 200
    ids = []
    for record in read_shards(tmp_path / "records"):
        features = tf.train.Example.FromString(record).features.feature
        ids += features["input_ids"].int64_list.value
    assert ids.count(1) == many.num_unknown
    assert "of the words are unknown ([UNK]); " in messages[-1]
    rare = dataclasses.replace(many, num_unknown=1, num_words=1_000_000)
    print_result(rare, None, tmp_path / "r", tmp_path / "vocab.txt", 1.0, messages.append)
    assert "; <0.01% of the words are unknown ([UNK]); " in messages[-1]
    assert "of the words of the records are unknown" in capsys.readouterr().err


def test_unknown_words_are_a_share_of_the_words(build, corpus_dir, capsys):
    """Where words are long, such as in Thai, few of the tokens are most of the text."""
    for path in corpus_dir.rglob("*.txt"):
        path.unlink()
    known, unknown = "electra" * 20, "\u0e01" * 140
    (corpus_dir / "a.txt").write_text(f"{known} {known} {unknown}\n" * 50)
    manifest = build()
    assert (manifest.num_unknown, manifest.num_words) == (50, 150)
    assert manifest.num_unknown < 0.05 * manifest.num_tokens_written
    assert "33.3% of the words of the records are unknown" in capsys.readouterr().err


def test_settings_without_effect_are_warned_of(build, capsys):
    warn_once.cache_clear()
    build(deduplicate="near", near_duplicate_words=3)
    build(overwrite=True, do_lower_case=False)
    assert "has no effect" not in capsys.readouterr().err
    unused = {"near_duplicate_words": 3, "sentence_language": "de", "text_field": "prose"}
    build(overwrite=True, do_lower_case=False, strip_accents=True, **unused)
    warned = capsys.readouterr().err
    assert "--near_duplicate_words=3 has no effect without --deduplicate=near" in warned
    assert "--sentence_language=de has no effect without --sentences=split" in warned
    assert "--text_field=prose has no effect" in warned
    assert "--do-strip-accents has no effect with --do_lower_case=false" in warned


def test_manifests_of_older_programs_are_read(build, tmp_path):
    build()
    path = tmp_path / "records/pretrain_data.json"
    content = without_seal(json.loads(path.read_text()), path)
    for name in ("authors_trimming", "num_tokens_read", "num_tokens_written", "dropped_tokens"):
        del content[name]
    assert content.pop("tokenizer")["do_lower_case"] is True
    path.write_text(json.dumps(content))
    manifest = load_manifest(tmp_path / "records")
    assert (manifest.authors_trimming, manifest.num_tokens_read) == (True, None)
    assert manifest.tokenizer_description.vocab_sha256 == manifest.vocab_sha256


def test_the_tokenizer_travels_with_the_vocabulary_and_the_records(
    build, tmp_path, demo_vocab_file, vocabulary
):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(demo_vocab_file.read_bytes())
    ours = TokenizerDescription(vocab_sha256=vocabulary.sha256, strip_accents=False)
    write_tokenizer_description(vocab_file, ours)
    with pytest.raises(UserError, match="--do-strip-accents is true, but"):
        build(vocab_file=vocab_file, strip_accents=True)
    messages = []
    manifest = build(vocab_file=vocab_file, print_fn=messages.append)
    assert (manifest.do_lower_case, manifest.strip_accents) == (True, False)
    assert manifest.tokenizer_description == ours
    # The records alone tell, too: the vocabulary of the model may have no description.
    patterns = f"{tmp_path}/records/pretrain_data.tfrecord*"
    check_records(patterns, 32, vocabulary=vocabulary, tokenizer=ours)
    theirs = dataclasses.replace(ours, strip_accents=True)
    message = "--strip_accents is true, but .* built with false: build them again without"
    with pytest.raises(UserError, match=message):
        check_records(patterns, 32, vocabulary=vocabulary, tokenizer=theirs)


@pytest.mark.parametrize(
    "settings",
    [{}, {"strip_accents": False}, {"do_lower_case": False}, {"max_seq_length": 1024}],
)
def test_the_next_command_is_one_that_works(build, tmp_path, settings):
    messages = []
    output_dir = tmp_path / "my data/records"
    manifest = build(output_dir=output_dir, print_fn=messages.append, **settings)
    command = shlex.split(messages[-1].partition("Next:")[2])
    assert command[:2] == ["python", "run_pretraining.py"]
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    parsing.parse(command[1:], {}, flag_values)
    config = pretraining.config_from_flags(flag_values)
    assert config.max_seq_length == manifest.max_seq_length
    training_records(config).check(
        load_checked_vocabulary(config), manifest.tokenizer_description, [config.max_seq_length]
    )
    assert config.do_lower_case == manifest.do_lower_case
    assert not config.do_lower_case or config.strip_accents == manifest.strip_accents


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("pretrain_tfrecords", "--pretrain_tfrecords"),
        ("latest_tfrecords", "--pretrain_tfrecords"),
        ("test", "--pretrain_tfrecords"),  # of a first try
        ("eval_tfrecords", "--eval_tfrecords"),
        ("my-heldout", "--eval_tfrecords"),
    ],
)
def test_the_next_command_does_not_train_on_held_out_records(name, flag):
    assert _records_flag(pathlib.Path("data", name)) == flag


def test_same_seed_gives_the_same_files_and_another_seed_others(build, tmp_path):
    for name, seed in (("x", 1), ("y", 1), ("z", 2)):
        build(seed=seed, output_dir=tmp_path / name)
    assert contents(tmp_path / "x") == contents(tmp_path / "y") != contents(tmp_path / "z")


def test_the_vocabulary_in_the_folder_of_the_text_is_not_built(
    build, corpus_dir, tmp_path, demo_vocab_file
):
    shards = build(output_dir=tmp_path / "without").shard_sha256
    vocab_file = corpus_dir / "vocab.txt"
    vocab_file.write_bytes(demo_vocab_file.read_bytes())
    assert build(output_dir=tmp_path / "with", vocab_file=vocab_file).shard_sha256 == shards


def test_a_crash_while_tokenizing_names_the_file(build, monkeypatch, tmp_path):
    def fail(*_):
        raise IndexError("boom")

    monkeypatch.setattr("electra_tf.text.cached_tokenizer.CorpusTokenizer.tokenize", fail)
    with pytest.raises(WorkerError, match=r"corpus/.*txt: IndexError\('boom'\)"):
        build()
    assert not (tmp_path / "records").exists()


def test_a_directory_that_is_not_empty_is_refused(build, tmp_path):
    output_dir = tmp_path / "records"
    output_dir.mkdir()
    (output_dir / "precious").write_text("mine")
    with pytest.raises(
        UserError, match=r"records \(--output-dir\) is not empty: it contains precious"
    ):
        build()
    assert contents(output_dir) == {"precious": b"mine"}
    with pytest.raises(UserError, match=r"precious \(--output-dir\) is a file"):
        build(output_dir=output_dir / "precious", overwrite=True)


def test_overwrite_replaces_data_and_nothing_else(build, tmp_path):
    output_dir = tmp_path / "records"
    build(num_out_files=7)
    (output_dir / "notes").write_text("mine")
    (output_dir / ".building-left").mkdir()
    manifest = build(num_out_files=2, overwrite=True)
    assert sorted(contents(output_dir)) == ["notes", "pretrain_data.json", *manifest.shards]


def test_older_data_survive_every_failure(build, corpus_dir, tmp_path, monkeypatch):
    output_dir = tmp_path / "records"
    build()
    before = contents(output_dir)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("a\n")
    bad_settings = [
        ({"corpus_dir": tmp_path / "none"}, "does not exist"),
        ({"vocab_file": vocab_file}, "lacks the special tokens"),
        ({"max_seq_length": 4}, "--max-seq-length must be from 5 to 65536, not 4"),
        ({"num_processes": 0}, "--num-processes must be at least 1"),
        ({"num_processes": 2, "num_out_files": 1}, "must be at least --num-processes"),
    ]
    for settings, message in bad_settings:
        with pytest.raises(UserError, match=message):
            build(overwrite=True, **settings)
    (corpus_dir / "broken.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match="broken"):
        build(overwrite=True)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pretrain_data.build.drivers.local_run.run_job", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build(overwrite=True)
    assert contents(output_dir) == before


def test_a_corpus_without_tokens_is_refused(build, tmp_path):
    (tmp_path / "blank").mkdir()
    (tmp_path / "blank/a.txt").write_text("\n\n\u200b\n  \n")
    with pytest.raises(UserError, match="contains no text: all of its 4 lines are blank"):
        build(corpus_dir=tmp_path / "blank")
    assert not (tmp_path / "records").exists()


def test_lines_are_split_into_sentences_when_told(build, corpus_dir):
    pytest.importorskip("sentencex", reason="needs electra-tf[corpus]")
    for name in ("b.txt", "below/c.txt"):
        (corpus_dir / name).unlink()
    text = "".join(f"The sea. The night! A storm?\n\nTown {i}.\n\n" for i in range(60))
    (corpus_dir / "a.txt").write_text(text)
    lines = build()
    split = build(sentences="split", overwrite=True)
    assert split.num_lines == lines.num_lines + 120
    assert split.num_tokens_written == lines.num_tokens_written == split.num_tokens_read
    assert split.num_documents == lines.num_documents
    assert (lines.sentence_language, split.sentence_language) == (None, "en")
    settings = {"sentences": "split", "eval_fraction": 0.5, "overwrite": True}
    selected = build(**settings, deduplicate="exact")
    assert selected.num_duplicates == 59
    with pytest.raises(UserError, match="--sentence_language must be"):
        build(sentences="split", sentence_language="English", overwrite=True)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"max_seq_length": 64}, "smaller --max-seq-length, or --pack,"),
        ({"max_seq_length": 64, "authors_trimming": True}, "smaller --max-seq-length\n"),
        ({"max_seq_length": 64, "pack": True}, None),
        ({"max_seq_length": 16}, None),
    ],
)
def test_records_that_are_mostly_padding_are_warned_of(
    build, corpus_dir, capsys, settings, advice
):
    (corpus_dir / "short.txt").write_text("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11\n\n" * 1200)
    warn_once.cache_clear()
    build(**settings)
    warned = capsys.readouterr().err
    assert ("of the records are padding" in warned) == (advice is not None)
    assert (advice or "") in warned


def test_packed_rows_are_counted_and_lose_nothing(build, tmp_path):
    messages = []
    plain = build(max_seq_length=128)
    packed = build(max_seq_length=128, pack=True, overwrite=True, print_fn=messages.append)
    assert load_manifest(tmp_path / "records") == packed
    assert packed.num_tokens_written == plain.num_tokens_read == packed.num_tokens_read
    assert packed.num_documents == plain.num_documents
    assert (plain.num_packed, plain.pack, packed.pack) == (0, False, True)
    assert 0 < packed.num_packed <= packed.num_examples < plain.num_examples
    assert packed.num_padding < plain.num_padding
    assert f"{packed.num_packed} examples contain several documents." in messages
    assert "% of the positions are padding." in messages[-1]
    records = [tf.train.Example.FromString(r) for r in read_shards(tmp_path / "records")]
    masks = [record.features.feature["input_mask"].int64_list.value for record in records]
    assert sum(mask.count(0) for mask in map(list, masks)) == packed.num_padding
    with pytest.raises(UserError, match="--pack and --authors_trimming are mutually exclusive"):
        build(pack=True, authors_trimming=True, overwrite=True)


def test_held_out_rows_are_packed_apart(build, tmp_path):
    plain = build(eval_fraction=0.4)
    plain_held_out = load_manifest(tmp_path / "records/held_out")
    packed = build(eval_fraction=0.4, pack=True, overwrite=True)
    held_out = load_manifest(tmp_path / "records/held_out")
    assert held_out.num_tokens_written == plain_held_out.num_tokens_written
    assert packed.num_tokens_written == plain.num_tokens_written
    assert held_out.num_packed > 0 < packed.num_packed
    assert held_out.num_padding < plain_held_out.num_padding


def test_records_without_a_text_are_counted(build, tmp_path):
    path = tmp_path / "a.jsonl"
    inputs = {"corpus_dir": None, "inputs": (str(path),)}
    path.write_text('{"text": null}\n' * 3)
    message = "contains no text: all of 3 records have null as their text"
    with pytest.raises(UserError, match=message):
        build(**inputs)
    path.write_text('{"text": null}\n{"text": "the sea"}\n{"text": null}\n')
    messages = []
    manifest = build(**inputs, print_fn=messages.append)
    assert (manifest.null_texts, manifest.num_documents) == ({str(path): 2}, 1)
    assert f"{path}: 2 records have null as their text, and are left out." in messages


def test_default_number_of_shards_follows_the_size(build):
    assert len(build().shards) == 4
    config = dataset.CorpusBuildConfig(*[pathlib.Path()] * 3, num_processes=6)
    part = find_corpus(ROOT / "demo/corpus").parts[0]
    assert dataset._num_shards(config, [part]) == 6
    large = part.__class__(part.path, 0, 10**9)
    assert dataset._num_shards(config, [large]) == 60
    assert dataset._num_shards(config, [large] * 1000) == 1000


def test_program_with_two_processes_and_the_authors_flags(corpus_dir, tmp_path):
    (corpus_dir / "a.txt").write_text(corpus_text(9, num_documents=40) + "Caf\u00e9 Sea\n")
    flags = ["--corpus-dir", corpus_dir, "--vocab-file", ROOT / "demo/vocab.txt"]
    flags += ["--max-seq-length", 16, "--num-processes", 2, "--blanks-separate-docs", "False"]
    flags += ["--no-lower-case", "--no-strip-accents"]
    results = [run_program(*flags, "--output-dir", tmp_path / name) for name in "xy"]
    for result in results:
        assert (result.returncode, result.stderr) == (0, "")
        assert "with 2 processes" in result.stdout
        assert "python run_pretraining.py" in result.stdout
    assert contents(tmp_path / "x") == contents(tmp_path / "y")
    manifest = load_manifest(tmp_path / "x")
    assert (manifest.num_processes, manifest.max_seq_length) == (2, 16)
    settings = (manifest.do_lower_case, manifest.strip_accents, manifest.blanks_separate_docs)
    assert settings == (False, False, False)
    assert sum(manifest.shards.values()) == len(read_shards(tmp_path / "x"))
    assert min(manifest.shards.values()) > 0


def test_an_error_in_a_process_names_the_file_and_leaves_nothing(corpus_dir, tmp_path):
    (corpus_dir / "z.txt.gz").write_bytes(gzip.compress(b"text\n" * 9999)[:-9])
    arguments = ["--corpus-dir", corpus_dir, "--vocab-file", ROOT / "demo/vocab.txt"]
    arguments += ["--output-dir", tmp_path / "records", "--num-processes", 2]
    result = run_program(*arguments)
    assert result.returncode == 1
    assert "z.txt.gz (--corpus-dir) is not a complete gzip file" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "records").exists()


@pytest.mark.usefixtures("heeded_sigint")
@pytest.mark.parametrize(
    ("signal_number", "whom", "status"),
    [(signal.SIGINT, "group", 130), (signal.SIGTERM, "parent", 143)],
)
def test_a_stopped_build_leaves_no_process_and_no_half_shards(
    tmp_path, signal_number, whom, status
):
    (tmp_path / "corpus").mkdir()
    with open(tmp_path / "corpus/a.txt", "w") as f:
        f.writelines(corpus_text(i, num_documents=20) for i in range(5000))
    command = [sys.executable, ROOT / "build_pretraining_dataset.py", "--num-processes=2"]
    command += [f"--corpus-dir={tmp_path}/corpus", f"--vocab-file={ROOT}/demo/vocab.txt"]
    command += [f"--output-dir={tmp_path}/records"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("records/.building-*/pretrain_data.tfrecord-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    if whom == "group":
        os.killpg(process.pid, signal_number)
    else:
        process.send_signal(signal_number)
    # The pipes are closed when the last process has ended.
    _, errors = process.communicate(timeout=10)
    assert process.returncode == status
    assert b"Traceback" not in errors
    assert not (tmp_path / "records").exists()


def test_a_second_build_into_a_directory_is_refused(build, tmp_path, monkeypatch):
    build()
    before = contents(tmp_path / "records")
    with (
        lock_output_dir(tmp_path / "records", "--output-dir"),
        pytest.raises(UserError, match=r"Another program is building records in .*records"),
    ):
        build(overwrite=True)
    assert contents(tmp_path / "records") == before
    (tmp_path / "link").symlink_to(tmp_path / "records")
    with (
        lock_output_dir(tmp_path / "link", "--output-dir"),
        pytest.raises(UserError, match=r"Another program is building records in .*records"),
    ):
        build(overwrite=True)
    build(overwrite=True)
    # Next to a mounted volume, no file can be made.
    (tmp_path / "records.lock").unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for settings in ({}, {"corpus_dir": tmp_path / "none"}):
        with contextlib.suppress(UserError):
            build(overwrite=True, **settings)
    assert not (tmp_path / "records.lock").exists()
    assert contents(tmp_path / "records") == before | {INNER_LOCK_FILE: b""}


def test_unreadable_files_are_skipped_and_listed_if_told(build, corpus_dir, tmp_path):
    content = gzip.compress(("the sea and the storm .\n" * 9999).encode())
    (corpus_dir / "half.txt.gz").write_bytes(content[: len(content) // 2])
    (corpus_dir / "gone.txt").symlink_to(corpus_dir / "nowhere")
    with pytest.raises(UserError, match=r"gone\.txt \(--corpus-dir\) cannot be read"):
        build()
    messages = []
    for settings in ({}, {"authors_trimming": True, "overwrite": True}):
        manifest = build(skip_unreadable=True, print_fn=messages.append, **settings)
        assert list(manifest.unreadable) == ["gone.txt", "half.txt.gz"]
        assert "is not a complete gzip file" in manifest.unreadable["half.txt.gz"]
        assert "Skipped 2 unreadable files and folders:" in messages
        assert "gone.txt cannot be read: No such file or directory." in messages
        dropped = sum(manifest.dropped_tokens.values())
        assert manifest.num_tokens_read == manifest.num_tokens_written + dropped


@pytest.mark.parametrize("name", ["half.txt.gz", "half.jsonl.gz", "half.txt.zst"])
def test_the_text_before_the_damage_of_a_file_is_kept_and_told(build, tmp_path, name):
    lines = [f"the boat {number} and the sea and the storm .\n" for number in range(9000)]
    text = "".join(lines)
    if ".jsonl" in name:
        text = "".join(json.dumps({"text": line}) + "\n" for line in lines)
    compress = zstandard.compress if name.endswith("zst") else gzip.compress
    content = compress(text.encode())
    (tmp_path / name).write_bytes(content[:-9])
    settings = {"corpus_dir": None, "inputs": (str(tmp_path / name),), "skip_unreadable": True}
    manifest = build(**settings)
    ((path, reason),) = manifest.unreadable.items()
    assert pathlib.Path(path).name == name
    kept = re.fullmatch(r"is not a complete .*; the ([\d,]+) bytes of text .* are kept", reason)
    assert int(kept[1].replace(",", "")) == manifest.num_text_bytes
    assert manifest.num_lines > 4000


def test_a_corpus_of_unreadable_files_alone_says_why_it_has_no_text(build, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(b"no gzip")
    settings = {"corpus_dir": None, "inputs": (str(tmp_path / "a.txt.gz"),)}
    with pytest.raises(
        UserError, match=r"left out 1 files .*a\.txt\.gz is not a complete gzip"
    ):
        build(skip_unreadable=True, **settings)


def test_a_full_disk_is_one_line(build, tmp_path, monkeypatch):
    build()
    before = contents(tmp_path / "records")

    class FullWriter(tf.io.TFRecordWriter):
        def __init__(self, path):
            os.symlink("/dev/full", path)
            super().__init__(path)

    monkeypatch.setattr(tf.io, "TFRecordWriter", FullWriter)
    with pytest.raises(UserError, match=r"Records cannot be written .*No space left") as error:
        build(overwrite=True)
    assert "\n" not in str(error.value)
    monkeypatch.undo()

    def fail(path):
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr("pretrain_data.build.output_dir.flush_file", fail)
    with pytest.raises(UserError, match=r"\(--output-dir\) cannot be written: .*Input/output"):
        build(overwrite=True)
    assert contents(tmp_path / "records") == before


def test_help_and_flag_errors_answer_without_tensorflow(tmp_path, monkeypatch):
    # Whose import takes seconds.
    (tmp_path / "tensorflow.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = (f"--corpus-dir={ROOT}/demo/corpus", f"--vocab-file={ROOT}/demo/vocab.txt")
    built = run_program(*settings, f"--output-dir={tmp_path}/records")
    assert "imported" in built.stderr
    text = run_program("--help").stdout
    wrong = run_program("--corpus-dri", "x")
    negative = run_program("--corpus-dir=x", "--vocab-file=y", "--output-dir=z", "--seed=-1")
    assert "--[no]blanks_separate_docs" in text
    assert "--vocab_file: WordPiece vocabulary" in text
    assert wrong.returncode == negative.returncode == 2
    assert "Unknown flag --corpus_dri. Did you mean 'corpus_dir'?" in wrong.stderr
    assert "--seed=-1" in negative.stderr


def test_openwebtext_program(tmp_path, demo_vocab_file):
    from tests.pretrain_data.corpus.readers.test_archives import write_archive

    (tmp_path / "openwebtext").mkdir()
    (tmp_path / "vocab.txt").write_bytes(demo_vocab_file.read_bytes())
    text = corpus_text(1, num_documents=5).encode()
    for name in ("a.xz", "b.xz"):
        write_archive(tmp_path / "openwebtext" / name, [("t/1.txt", text), ("t/2.txt", text)])
    program = "build_openwebtext_pretraining_dataset.py"
    result = run_program("--data-dir", tmp_path, "--max-seq-length", 32, program=program)
    assert (result.returncode, result.stderr) == (0, "")
    manifest = load_manifest(tmp_path / "pretrain_tfrecords")
    assert (manifest.num_documents, manifest.blanks_separate_docs) == (4, False)
    assert manifest.vocab_sha256 == load_vocabulary(demo_vocab_file).sha256


def test_damaged_manifests_are_refused(build, tmp_path):
    directory = tmp_path / "records"
    manifest = build()
    path = directory / "pretrain_data.json"
    whole = without_seal(json.loads(path.read_text()), path)
    assert load_manifest(tmp_path) is None
    for change, message in (
        ({"format_version": 2}, "has format_version 2; this program reads 1"),
        ({"num_examples": 3}, "num_examples is 3, but the shards have"),
        ({"extra": 3}, "missing or unknown fields: extra"),
        ({"shards": [1]}, "shards must map file names to numbers of records"),
    ):
        path.write_text(json.dumps(whole | change))
        with pytest.raises(UserError, match=message):
            load_manifest(directory)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read as JSON"):
        load_manifest(directory)
    write_manifest(manifest, directory)
    assert load_manifest(directory) == manifest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_redraws_a_line_on_a_terminal_and_not_in_a_log(monkeypatch):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LOG_LINES", 0.0)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_REDRAWS", 0.0)
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        bar = ProgressBar(1000, stream)
        bar.update(disk_bytes=0, text_bytes=0, examples=0)
        bar.update(disk_bytes=250, text_bytes=11_000_000, examples=1234)
        bar.update(disk_bytes=500, text_bytes=22_000_000, examples=2468)
        assert 0 <= bar.close() < 60
    lines = log.getvalue().splitlines()
    assert [line.lstrip().partition("%")[0] for line in lines] == ["25", "50"]
    assert "1,234 examples" in lines[0]
    assert "MB/s of text, 2,468 examples" in lines[1]
    assert not re.search(r"[\r\x1b]", log.getvalue())
    assert "1,234 examples" in terminal.getvalue()
    # Redrawn in place, and cleared at the end.
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")


def test_logs_are_not_flooded():
    log = io.StringIO()
    bar = ProgressBar(1000, log)
    for disk_bytes in range(1, 1000):
        bar.update(disk_bytes, disk_bytes, disk_bytes)
    bar.close()
    assert log.getvalue() == ""


def test_durations_are_spelled_briefly():
    assert [format_seconds(s) for s in (59.4, 61, 3725)] == ["59 s", "1:01", "1:02:05"]


def test_json_lines_are_built_like_the_same_documents_as_text(build, corpus_dir, tmp_path):
    texts = [path.read_text() for path in sorted(corpus_dir.rglob("*.txt"))]
    documents = [text for content in texts for text in content.split("\n\n")]
    lines = [json.dumps({"body": text.replace("\n", "\n \n")}) for text in documents]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    settings = {"corpus_dir": None, "inputs": (str(tmp_path / "*.jsonl"),), "overwrite": True}
    as_text = build(shuffle_files=False)
    expected = read_shards(tmp_path / "records")
    manifest = build(text_field="body", **settings)
    assert read_shards(tmp_path / "records") == expected
    assert manifest.num_documents == as_text.num_documents == len(documents)
    assert manifest.num_tokens_read == manifest.num_tokens_written == as_text.num_tokens_read
    before = contents(tmp_path / "records")
    with pytest.raises(UserError, match="no field 'boddy'"):
        build(text_field="boddy", **settings)
    assert contents(tmp_path / "records") == before
