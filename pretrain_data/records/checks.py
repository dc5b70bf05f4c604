"""Checks that records are complete, and of the length, vocabulary and tokenizer of a run."""

import os
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from electra_tf.text.framing import ENCODER_INPUTS, INPUT_IDS, INPUT_MASK
from electra_tf.text.tokenizer_description import TOKENIZER_SETTINGS, TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from pretrain_data.records.bad_records import (
    content_problem,
    diagnose_bad_record,
    iterate_records,
)
from pretrain_data.records.completeness import check_shards, warn_of_unlisted
from pretrain_data.records.files import DEFAULT_FLAG, built_counts, file_size, find_record_files
from pretrain_data.records.manifest import FILE_NAME, load_manifests


def find_checked_record_files(
    patterns: str | Sequence[str],
    max_seq_length: int,
    flag: str = DEFAULT_FLAG,
    *,
    skip_bad_records: bool = False,
) -> list[str]:
    """Returns the matching files after checking their sizes and sequence length.

    Args:
        patterns: files or glob patterns, also comma-separated.
        max_seq_length: sequence length of the run, in tokens.
        flag: flag to name in errors.
        skip_bad_records: accept files whose records are damaged.

    Raises:
        UserError: no file matches, the manifest has another length or no records of the files,
            or (unless bad records are skipped) a file size differs from the manifest or the
            records have another length.
    """
    files = find_record_files(patterns, flag)
    check_built_files(files, skip_bad_records=skip_bad_records)
    counts = built_counts(files)
    if len(counts) == len(files) and not sum(counts.values()):
        raise UserError(
            f"No record in {flag} ({len(files)} files, first: {files[0]}): they were built "
            "empty, as there were fewer examples than files. Pass the others, too"
        )
    if not skip_bad_records or _lengths_of_manifests(files):
        check_sequence_length(files, max_seq_length, flag)
    return files


def check_records(
    patterns: str | Sequence[str],
    max_seq_length: int,
    flag: str = DEFAULT_FLAG,
    *,
    vocabulary: Vocabulary,
    tokenizer: TokenizerDescription,
    skip_bad_records: bool = False,
) -> None:
    """Compares records with a length and, where there are manifests, with a tokenizer.

    Args:
        patterns: files and wildcards, also separated by commas.
        max_seq_length: length of the records.
        flag: flag that errors name.
        vocabulary: that of the model.
        tokenizer: that of the model.
        skip_bad_records: leave sizes, and the length of records without manifest, unchecked.

    Raises:
        UserError: see `find_checked_record_files`, or the records were built with another
            vocabulary or other settings.
    """
    files = find_checked_record_files(
        patterns, max_seq_length, flag, skip_bad_records=skip_bad_records
    )
    check_vocabulary(files, vocabulary, flag)
    for directory, manifest in sorted(load_manifests(files).items()):
        if manifest is None:
            continue
        built_with = manifest.tokenizer_description
        for name in TOKENIZER_SETTINGS:
            if getattr(built_with, name) != getattr(tokenizer, name):
                ours, theirs = (
                    str(getattr(each, name)).lower() for each in (tokenizer, built_with)
                )
                negated = f"--no-{name.removeprefix('do_').replace('_', '-')}"
                how = "with" if ours == "false" else "without"
                raise UserError(
                    f"--{name} is {ours}, but the records of {flag} in {directory} were built "
                    f"with {theirs}: build them again {how} {negated}, or, for a new model "
                    f"only, pass --{name}={theirs}"
                )


def check_built_files(files: Sequence[str], *, skip_bad_records: bool) -> None:
    """Compares file names and, unless bad records are skipped, file sizes with the manifests.

    Sizes detect files truncated between two records, which read without errors. Missing shards
    are found too, and files that a manifest does not list are warned of.

    Raises:
        UserError: a shard is missing, or a file has another size than when it was built; not
            if bad records are skipped.
    """
    manifests = load_manifests(files)
    warn_of_unlisted(files, manifests)
    check_shards(files, manifests, skip_missing=skip_bad_records)
    if skip_bad_records:
        return
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        expected = manifest.shard_bytes.get(os.path.basename(path)) if manifest else None
        actual = file_size(path)
        if expected not in (None, actual):
            bad_record = diagnose_bad_record([path])
            where = f" {bad_record}\n" if bad_record else " "
            raise UserError(
                f"{path} has {actual:,} bytes, but was built with {expected:,} "
                f"({FILE_NAME} beside it).{where}Rebuild the records, or read the intact ones "
                "with --skip_bad_records"
            )


def check_vocabulary(
    files: Sequence[str], vocabulary: Vocabulary, flag: str = DEFAULT_FLAG
) -> None:
    """Compares a vocabulary with the manifests; without one, a record must begin with [CLS].

    Raises:
        UserError: records were built with another one.
    """
    for directory, manifest in sorted(load_manifests(files).items()):
        if manifest is None:
            inside = [path for path in files if os.path.dirname(path) == directory]
            _warn_of_another_beginning(inside, vocabulary, flag)
        elif manifest.vocab_sha256 != vocabulary.sha256:
            raise UserError(
                f"The records of {flag} in {directory} were built with a different vocabulary "
                f"than --vocab_file={vocabulary.path}: use the one they were built with"
            )


def check_sequence_length(files: Sequence[str], max_seq_length: int, flag: str) -> None:
    """Compares `max_seq_length` with all manifests, or with the first record.

    Raises:
        UserError: records have another length, or none is readable.
    """
    lengths = _lengths_of_manifests(files) or [recorded_length(files, flag)]
    other = [(actual, source) for actual, source in lengths if actual != max_seq_length]
    if not other:
        return
    actual, source = other[0]
    if len(other) < len(lengths):
        raise UserError(
            f"{flag} has records of different lengths: those of {source} have {actual} tokens, "
            f"others {max_seq_length} (--max_seq_length). Leave them out, or build records of "
            f"{max_seq_length} tokens"
        )
    raise UserError(
        f"--max_seq_length is {max_seq_length}, but the records have {actual} tokens "
        f"({source}, {flag}). Set --max_seq_length={actual}, or build records of "
        f"{max_seq_length} tokens"
    )


def recorded_length(files: Sequence[str], flag: str) -> tuple[int, str]:
    """Returns the sequence length of records, and the manifest or the file that has it.

    Raises:
        UserError: there is neither a manifest nor a readable record.
    """
    if found := _lengths_of_manifests(files):
        return found[0]
    for features, path in _readable_records(files):
        return len(features[INPUT_IDS]), path
    bad_record = diagnose_bad_record(files)
    first = f". The first: {bad_record}" if bad_record else f", first: {files[0]}"
    raise UserError(f"No readable record in {flag} ({len(files)} files){first}")


def _readable_records(
    files: Sequence[str],
) -> Iterator[tuple[Mapping[str, Sequence[int]], str]]:
    """Yields the features of the records of any length, and the file of each."""
    for path in files:
        for record, _, bad_record in iterate_records(path):
            if bad_record is None and content_problem(record, None) is None:
                features = tf.train.Example.FromString(record).features.feature
                yield {name: features[name].int64_list.value for name in ENCODER_INPUTS}, path


def _warn_of_another_beginning(files: Sequence[str], vocabulary: Vocabulary, flag: str) -> None:
    """Warns if the first record with text does not begin with [CLS].

    Another vocabulary has other special tokens: those of the records would be masked, and
    replaced, like words.
    """
    for features, path in _readable_records(files):
        pairs = zip(features[INPUT_IDS], features[INPUT_MASK], strict=True)
        first = next((token for token, mask in pairs if mask), None)
        if first is None:
            continue
        if first != vocabulary.cls_id:
            warn_once(
                f"the first record of {path} ({flag}) begins with the id {first:,}, but [CLS] "
                f"of {vocabulary.path} is {vocabulary.cls_id:,}: check that the records were "
                "built with this vocabulary"
            )
        return


def _lengths_of_manifests(files: Sequence[str]) -> list[tuple[int, str]]:
    """Returns the sequence length in the manifest of each folder that has one, and its path."""
    listed = {os.path.dirname(path) for path in built_counts(files)}
    return [
        (manifest.max_seq_length, os.path.join(folder, FILE_NAME))
        for folder, manifest in load_manifests(files).items()
        if folder in listed
    ]
