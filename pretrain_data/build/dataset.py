"""Builds pre-training data: from files of text to a directory of TFRecord shards.

Shards are written to a hidden directory inside the output directory. Once all are complete,
older data is removed, and the shards and their manifest are moved into place. An error or
interrupt before that leaves older data intact.
"""

import dataclasses
import math
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping

from electra_tf.text.description import SETTINGS, TokenizerDescription, tokenizer_settings
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.build.example_builder import MIN_SEQ_LENGTH
from pretrain_data.build.output_dir import (
    TemporaryDir,
    check_output_dir,
    lock_output_dir,
    publish,
)
from pretrain_data.build.processes import exiting_on_sigterm, run_jobs
from pretrain_data.build.report import print_result, print_what_is_left_out
from pretrain_data.build.worker import BuildJob, BuildResult
from pretrain_data.corpus.archives import find_archives
from pretrain_data.corpus.inputs import find_text
from pretrain_data.corpus.partition import CorpusPart, divide, shuffled
from pretrain_data.records import manifest as records_manifest

MAX_SEQ_LENGTH = 65536
# Records are about as large as their text. Shuffling needs several shards.
_TEXT_BYTES_PER_SHARD = 16 << 20
_MIN_SHARDS = 4
_MAX_SHARDS = 1000
_TOKENIZER_FLAGS = {"do_lower_case": "--do-lower-case", "strip_accents": "--do-strip-accents"}


@dataclasses.dataclass(frozen=True)
class CorpusBuildConfig:
    """Settings of a build of pre-training data.

    Attributes:
        corpus_dir: directory of the text: `.txt` and `.txt.gz` files at any depth, or `.xz`
            tar archives if `is_openwebtext`. None reads `inputs`.
        vocab_file: WordPiece vocabulary.
        output_dir: directory of the shards and the manifest.
        max_seq_length: sequence length, in tokens.
        num_processes: number of worker processes. The examples depend on the corpus, the
            settings, `seed` and this number.
        num_out_files: number of shards; None chooses by corpus size.
        blanks_separate_docs: a blank line ends a document, not only the end of a file.
        do_lower_case: lowercase the text; None takes what the description beside the
            vocabulary says, and lowercases without one.
        strip_accents: strip accents when lowercasing; None as for `do_lower_case`.
        shuffle_files: read the files in random order instead of sorted by path.
        seed: random seed.
        overwrite: replace data in the output directory.
        authors_trimming: drop what does not fit into a segment, as the authors do, instead of
            going on in the next segment or example.
        skip_unreadable: skip files and folders that cannot be read, and list them.
        is_openwebtext: read archives.
        inputs: files, globs and folders of the formats in `pretrain_data.corpus.formats`,
            instead of `corpus_dir`.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet.
    """

    corpus_dir: pathlib.Path | None
    vocab_file: pathlib.Path
    output_dir: pathlib.Path
    max_seq_length: int = 128
    num_processes: int = 1
    num_out_files: int | None = None
    blanks_separate_docs: bool = True
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    shuffle_files: bool = True
    seed: int = 0
    overwrite: bool = False
    authors_trimming: bool = False
    skip_unreadable: bool = False
    is_openwebtext: bool = False
    inputs: tuple[str, ...] = ()
    text_field: str = "text"
    text_column: str = "text"

    @property
    def corpus_name(self) -> str:
        """The corpus, for messages."""
        return str(self.corpus_dir or ", ".join(self.inputs))


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
    shares = divide(parts, config.num_processes, config.blanks_separate_docs)
    num_disk_bytes = sum(part.num_disk_bytes for part in parts)
    print_fn(
        f"Reading {num_disk_bytes / 1e6:,.1f} MB in {len(parts)} files with {len(shares)} "
        f"process{'es' if len(shares) > 1 else ''}, writing {num_shards} shards."
    )
    with TemporaryDir(config.output_dir, output_flag) as temporary_dir:
        jobs = _jobs(config, vocabulary, shares, num_shards, temporary_dir)
        progress = ProgressBar(num_disk_bytes)
        try:
            results = run_jobs(jobs, progress)
        finally:
            seconds = progress.close()
        manifest = _manifest(config, vocabulary, results, unreadable, temporary_dir)
        if not manifest.num_examples:
            raise UserError(
                f"The corpus in {config.corpus_name} contains no text: all of its "
                f"{manifest.num_lines:,} lines are blank or without tokens."
            )
        publish(manifest, temporary_dir, config.output_dir, output_flag)
    print_result(manifest, config.output_dir, config.vocab_file, seconds, print_fn)
    return manifest


def _check_settings(config: CorpusBuildConfig) -> None:
    if not MIN_SEQ_LENGTH <= config.max_seq_length <= MAX_SEQ_LENGTH:
        raise UserError(
            f"--max-seq-length must be from {MIN_SEQ_LENGTH} to {MAX_SEQ_LENGTH}, "
            f"not {config.max_seq_length}."
        )
    if config.num_processes < 1:
        raise UserError(f"--num-processes must be at least 1, not {config.num_processes}.")
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
            vocabulary=vocabulary,
            temporary_dir=temporary_dir,
            shard_indices=list(range(index, num_shards, len(shares))),
            num_shards=num_shards,
            max_seq_length=config.max_seq_length,
            seed=config.seed,
            do_lower_case=config.do_lower_case,
            strip_accents=config.strip_accents,
            blanks_separate_docs=config.blanks_separate_docs,
            authors_trimming=config.authors_trimming,
            skip_unreadable=config.skip_unreadable,
        )
        for index, share in enumerate(shares)
    ]


def _manifest(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    results: list[BuildResult],
    unreadable: Mapping[str, str],
    temporary_dir: pathlib.Path,
) -> records_manifest.Manifest:
    shards = {name: n for result in results for name, n in result.shards.items()}
    shards = {name: shards[name] for name in sorted(shards, key=lambda n: (len(n), n))}
    hashes = {name: h for result in results for name, h in result.shard_sha256.items()}
    invalid_utf8: Counter[str] = Counter()
    dropped_tokens: Counter[str] = Counter()
    unreadable = dict(unreadable)
    for result in results:
        unreadable.update(result.unreadable)
        invalid_utf8.update(result.invalid_utf8)
        dropped_tokens.update(result.dropped_tokens)
    return records_manifest.Manifest(
        max_seq_length=config.max_seq_length,
        num_examples=sum(shards.values()),
        shards=shards,
        shard_bytes={name: (temporary_dir / name).stat().st_size for name in shards},
        shard_sha256={name: hashes[name] for name in shards},
        num_documents=sum(result.totals.documents for result in results),
        num_lines=sum(result.totals.lines for result in results),
        num_text_bytes=sum(result.totals.text_bytes for result in results),
        invalid_utf8={
            _name(path, config): count for path, count in sorted(invalid_utf8.items())
        },
        vocab_size=vocabulary.size,
        vocab_sha256=vocabulary.sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
        blanks_separate_docs=config.blanks_separate_docs,
        shuffle_files=config.shuffle_files,
        seed=config.seed,
        num_processes=config.num_processes,
        authors_trimming=config.authors_trimming,
        num_tokens_read=sum(result.totals.tokens_read for result in results),
        num_tokens_written=sum(result.totals.tokens_written for result in results),
        dropped_tokens=dict(dropped_tokens),
        unreadable={_name(path, config): reason for path, reason in sorted(unreadable.items())},
        tokenizer=TokenizerDescription(
            vocab_sha256=vocabulary.sha256,
            do_lower_case=config.do_lower_case,
            strip_accents=config.strip_accents,
        ).to_dict(),
    )


def _name(path: str, config: CorpusBuildConfig) -> str:
    """Returns the name of a file in the manifest."""
    return os.path.relpath(path, config.corpus_dir) if config.corpus_dir else path
