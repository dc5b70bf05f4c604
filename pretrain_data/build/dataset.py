"""Builds pre-training data: from files of text to a directory of TFRecord shards.

Shards are written to a hidden directory inside the output directory. Once all are complete,
older data is removed, and the shards and their manifest are moved into place. An error or
interrupt before that leaves older data intact.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping

from electra_tf.text.description import SETTINGS, tokenizer_settings
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.example_builder import MIN_SEQ_LENGTH
from pretrain_data.build.jobs import BuildJob
from pretrain_data.build.manifests import held_out_manifest, manifest_of_results
from pretrain_data.build.near_duplicates import check_near_duplicates
from pretrain_data.build.output_dir import (
    TemporaryDir,
    check_output_dir,
    lock_output_dir,
    publish,
)
from pretrain_data.build.processes import exiting_on_sigterm, run_jobs
from pretrain_data.build.report import print_result, print_what_is_left_out
from pretrain_data.build.selection import (
    DEDUPLICATE_CHOICES,
    HELD_OUT,
    DocumentHashes,
    ScanJob,
    scan_documents,
    select_documents,
)
from pretrain_data.build.worker import run_job
from pretrain_data.corpus.archives import find_archives
from pretrain_data.corpus.inputs import find_text
from pretrain_data.corpus.partition import CorpusPart, divide, shuffled
from pretrain_data.corpus.sentences import check_sentences
from pretrain_data.records import manifest as records_manifest

MAX_SEQ_LENGTH = 65536
# Records are about as large as their text. Shuffling needs several shards.
_TEXT_BYTES_PER_SHARD = 16 << 20
_MIN_SHARDS = 4
_MAX_SHARDS = 1000
_TOKENIZER_FLAGS = {"do_lower_case": "--do-lower-case", "strip_accents": "--do-strip-accents"}


def build_pretraining_data(
    config: CorpusBuildConfig, print_fn: Callable[[str], None] = print
) -> records_manifest.Manifest:
    """Builds the shards and their manifest in `config.output_dir`.

    Args:
        config: settings of the build.
        print_fn: prints a message.

    Returns:
        The manifest.

    Raises:
        UserError: a setting, the corpus, the vocabulary or the output directory is invalid.
            Nothing was removed or replaced.
        WorkerError: a process failed for another reason.
    """
    _check_settings(config)
    vocab_flag, output_flag = "--vocab-file", "--output-dir"
    if config.is_openwebtext:
        vocab_flag = output_flag = "--data-dir"
    vocabulary = load_vocabulary(config.vocab_file, vocab_flag)
    given = {name: getattr(config, name) for name in SETTINGS}
    settings = tokenizer_settings(given, config.vocab_file, flags=_TOKENIZER_FLAGS)
    config = dataclasses.replace(config, **settings)
    parts, unreadable = _find_parts(config, print_fn)
    with exiting_on_sigterm(), lock_output_dir(config.output_dir, output_flag):
        check_output_dir(config.output_dir, config.overwrite, output_flag)
        return _build(config, vocabulary, parts, unreadable, output_flag, print_fn)


def _build(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    parts: list[CorpusPart],
    unreadable: Mapping[str, str],
    output_flag: str,
    print_fn: Callable[[str], None],
) -> records_manifest.Manifest:
    if config.shuffle_files:
        parts = shuffled(parts, config.seed)
    num_shards = _num_shards(config, parts)
    shares = divide(
        parts, config.num_processes, config.blanks_separate_docs, config.selects_documents
    )
    num_disk_bytes = sum(part.num_disk_bytes for part in parts)
    print_fn(
        f"Reading {num_disk_bytes / 1e6:,.1f} MB in {len(parts)} files with {len(shares)} "
        f"process{'es' if len(shares) > 1 else ''}, writing {num_shards} shards."
    )
    with TemporaryDir(config.output_dir, output_flag) as temporary_dir:
        jobs = _jobs(config, vocabulary, shares, num_shards, temporary_dir)
        if config.selects_documents:
            jobs = _selected(config, jobs, temporary_dir, num_disk_bytes, print_fn)
        progress = ProgressBar(num_disk_bytes)
        try:
            results = run_jobs(run_job, jobs, progress)
        finally:
            seconds = progress.close()
        manifest = manifest_of_results(config, vocabulary, results, unreadable, temporary_dir)
        if not manifest.num_examples and config.eval_fraction:
            raise UserError(
                f"--eval_fraction={config.eval_fraction} leaves no text of the corpus in "
                f"{config.corpus_name} to train on."
            )
        if not manifest.num_examples:
            raise _no_text(manifest, config)
        held_out = held_out_manifest(config, vocabulary, results, temporary_dir)
        publish(manifest, held_out, temporary_dir, config.output_dir, output_flag)
    print_result(manifest, held_out, config.output_dir, config.vocab_file, seconds, print_fn)
    return manifest


def _no_text(manifest: records_manifest.Manifest, config: CorpusBuildConfig) -> UserError:
    what = f"its {manifest.num_lines:,} lines are blank or without tokens"
    if num_nulls := sum(manifest.null_texts.values()):
        where = "--text_field, --text_column"
        what = f"{num_nulls:,} records have null as their text ({where})" + (
            f", and {what}" if manifest.num_lines else ""
        )
    return UserError(f"The corpus in {config.corpus_name} contains no text: all of {what}.")


def _check_settings(config: CorpusBuildConfig) -> None:
    if not MIN_SEQ_LENGTH <= config.max_seq_length <= MAX_SEQ_LENGTH:
        raise UserError(
            f"--max-seq-length must be from {MIN_SEQ_LENGTH} to {MAX_SEQ_LENGTH}, "
            f"not {config.max_seq_length}."
        )
    if config.num_processes < 1:
        raise UserError(f"--num-processes must be at least 1, not {config.num_processes}.")
    if not 0 <= config.eval_fraction < 1:
        raise UserError(
            f"--eval_fraction must be at least 0 and below 1, not {config.eval_fraction}."
        )
    if config.deduplicate not in DEDUPLICATE_CHOICES:
        raise UserError(
            f"--deduplicate must be one of {', '.join(DEDUPLICATE_CHOICES)}, "
            f"not {config.deduplicate}."
        )
    if config.deduplicate == "near":
        check_near_duplicates(
            config.near_duplicate_threshold,
            config.near_duplicate_words,
            config.near_duplicate_permutations,
        )
    if config.pack and config.authors_trimming:
        raise UserError("--pack and --authors_trimming exclude each other: pass one of them.")
    check_sentences(config.sentences, config.sentence_language)
    if config.num_out_files is not None and config.num_out_files < config.num_processes:
        raise UserError(
            f"--num-out-files ({config.num_out_files}) must be at least --num-processes "
            f"({config.num_processes}): every process writes its own shards."
        )


def _find_parts(
    config: CorpusBuildConfig, print_fn: Callable[[str], None]
) -> tuple[list[CorpusPart], Mapping[str, str]]:
    """Returns the files, and what cannot be read with the reason."""
    if config.is_openwebtext:
        return find_archives(config.corpus_dir, skip_unreadable=config.skip_unreadable)
    corpus = find_text(
        config.corpus_dir,
        config.inputs,
        text_field=config.text_field,
        text_column=config.text_column,
        skip_unreadable=config.skip_unreadable,
    )
    print_what_is_left_out(corpus, config.corpus_dir, print_fn)
    return list(corpus.parts), corpus.unreadable


def _num_shards(config: CorpusBuildConfig, parts: list[CorpusPart]) -> int:
    if config.num_out_files is not None:
        return config.num_out_files
    by_size = math.ceil(sum(part.weight for part in parts) / _TEXT_BYTES_PER_SHARD)
    return max(config.num_processes, min(_MAX_SHARDS, max(_MIN_SHARDS, by_size)))


def _jobs(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    shares: list[list[CorpusPart]],
    num_shards: int,
    temporary_dir: pathlib.Path,
) -> list[BuildJob]:
    return [
        BuildJob(
            index=index,
            parts=share,
            config=config,
            vocabulary=vocabulary,
            temporary_dir=temporary_dir,
            shard_indices=list(range(index, num_shards, len(shares))),
            num_shards=num_shards,
            num_processes=len(shares),
        )
        for index, share in enumerate(shares)
    ]


def _selected(
    config: CorpusBuildConfig,
    jobs: list[BuildJob],
    temporary_dir: pathlib.Path,
    num_disk_bytes: int,
    print_fn: Callable[[str], None],
) -> list[BuildJob]:
    """Returns the jobs with the fates of their documents."""
    print_fn("Hashing the documents, to hold out or leave out some of them.")
    scans = [ScanJob(job.index, job.parts, config) for job in jobs]
    progress = ProgressBar(num_disk_bytes, unit="documents")
    try:
        hashes: list[DocumentHashes] = run_jobs(scan_documents, scans, progress)
    finally:
        progress.close()
    fates = select_documents(
        hashes, config.eval_fraction, config.deduplicate, config.near_duplicate_threshold
    )
    held_out_dir = None
    if config.eval_fraction:
        held_out_dir = temporary_dir / records_manifest.HELD_OUT_DIR
        held_out_dir.mkdir()
    return [
        dataclasses.replace(
            job,
            fates=fates_of_job,
            held_out_dir=held_out_dir,
            held_out_text_bytes=sum(
                size
                for size, fate in zip(share.text_bytes, fates_of_job, strict=True)
                if fate == HELD_OUT
            ),
        )
        for job, fates_of_job, share in zip(jobs, fates, hashes, strict=True)
    ]
