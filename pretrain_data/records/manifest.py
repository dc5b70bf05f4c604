"""`pretrain_data.json`: contents of a folder of TFRecords, and how it was built."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import split_patterns
from electra_tf.util.files import loads_json, write_atomically
from electra_tf.util.paths import AnyPath, RemotePath, as_path
from electra_tf.util.seals import sealed, without_seal

FILE_NAME = "pretrain_data.json"
FORMAT_VERSION = 1
# Content of the file while older records are replaced.
_UNFINISHED = {"unfinished": True}
# Records of held-out documents, in the folder of those to train on.
HELD_OUT_DIR = "held_out"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Description of the shards in a folder.

    Attributes:
        max_seq_length: padded length of every record.
        num_examples: total number of records.
        shards: number of records of each shard, by file name.
        shard_bytes: size of each shard, by file name.
        shard_sha256: hexadecimal digest of each shard, by file name; older manifests have none.
        num_documents: number of documents in the records.
        num_lines, num_text_bytes: size of the corpus, with duplicates that were left out; with
            sentences="split", a line is a sentence.
        invalid_utf8: number of sequences replaced with U+FFFD, by corpus file.
        null_texts: number of records that have null instead of a text, by corpus file.
        vocab_size, vocab_sha256: size and digest of the vocabulary file.
        do_lower_case, strip_accents, blanks_separate_docs, shuffle_files, seed: settings that,
            with corpus and vocabulary, determine the records.
        num_processes: number of processes that built them, which determines their order.
        num_units: number of units of the corpus that were built independently of each other;
            None of older programs, whose records depend on num_processes.
        tokenizer: `TokenizerDescription.to_dict` of the tokenizer; older manifests lack it.
        authors_trimming: whether text that did not fit into a segment was dropped; true of
            manifests that do not say so.
        num_tokens_read, num_tokens_written: number of tokens of the corpus and of the records,
            without [CLS] and [SEP]; None if unknown.
        num_unknown: number of [UNK] in the records; None if it was not counted.
        num_words: number of words in the records; None if it was not counted.
        dropped_tokens: number of tokens in no record, by cause.
        unreadable: why files and folders were skipped (--skip_unreadable), by path.
        eval_fraction: share of the documents in the records of `HELD_OUT_DIR`.
        held_out: whether these are those records.
        deduplicate: "exact" if only the first of equal documents was kept, "near" if only the
            first of similar ones, else "none".
        num_duplicates, num_near_duplicates: number of documents left out as such; their tokens
            are in `dropped_tokens`.
        near_duplicates: threshold and other settings of deduplicate="near"; None without it.
        pack: whether rows were filled with several documents.
        num_packed: number of records of several documents.
        num_padding: number of positions that are padding; None if unknown.
        sentences: "split" if lines were split into sentences, else "lines".
        sentence_language: language of the rules for it; None with sentences="lines".
        format_version: version of the file format.
    """

    max_seq_length: int
    num_examples: int
    shards: Mapping[str, int]
    shard_bytes: Mapping[str, int]
    num_documents: int
    num_lines: int
    num_text_bytes: int
    invalid_utf8: Mapping[str, int]
    vocab_size: int
    vocab_sha256: str
    do_lower_case: bool
    strip_accents: bool
    blanks_separate_docs: bool
    shuffle_files: bool
    seed: int
    num_processes: int
    authors_trimming: bool = True
    num_tokens_read: int | None = None
    num_tokens_written: int | None = None
    dropped_tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tokenizer: Mapping[str, Any] | None = None
    shard_sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)
    eval_fraction: float = 0.0
    held_out: bool = False
    deduplicate: str = "none"
    num_duplicates: int = 0
    num_near_duplicates: int = 0
    near_duplicates: Mapping[str, Any] | None = None
    null_texts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pack: bool = False
    num_packed: int = 0
    num_padding: int | None = None
    num_unknown: int | None = None
    num_words: int | None = None
    sentences: str = "lines"
    sentence_language: str | None = None
    num_units: int | None = None
    format_version: int = FORMAT_VERSION

    @property
    def tokenizer_description(self) -> TokenizerDescription:
        """The tokenizer of the records."""
        if self.tokenizer is not None:
            return TokenizerDescription.from_dict(dict(self.tokenizer), FILE_NAME)
        return TokenizerDescription(
            vocab_sha256=self.vocab_sha256,
            do_lower_case=self.do_lower_case,
            strip_accents=self.strip_accents,
        )


def write_manifest(manifest: Manifest, directory: AnyPath) -> AnyPath:
    """Writes the manifest atomically; returns its path."""
    path = directory / FILE_NAME
    _write(path, json.dumps(sealed(dataclasses.asdict(manifest)), indent=2) + "\n")
    return path


def mark_unfinished(directory: AnyPath) -> None:
    """Replaces the manifest by a mark with which all programs refuse the records."""
    _write(directory / FILE_NAME, json.dumps(_UNFINISHED) + "\n")


def _write(path: AnyPath, text: str) -> None:
    if not isinstance(path, RemotePath):
        write_atomically(path, text)
        return
    # A remote file appears when it is closed.
    path.write_bytes(text.encode())


def load_manifest(directory: str | AnyPath) -> Manifest | None:
    """Reads the manifest of a folder; returns None if there is none.

    Raises:
        UserError: the file is not a manifest or not what was written, has another version, or
            is the mark of `mark_unfinished`.
    """
    path = as_path(directory) / FILE_NAME
    try:
        content = loads_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    if content == _UNFINISHED:
        raise UserError(
            f"The records beside {path} are not complete: the program that built them was "
            "interrupted. Build them again with --overwrite"
        )
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path} has format_version {version!r}; this program reads {FORMAT_VERSION}. "
            "Rebuild the data with build_pretraining_dataset.py"
        )
    content = without_seal(content, path)
    fields = dataclasses.fields(Manifest)
    names = {field.name for field in fields}
    # Older manifests lack the fields that have defaults.
    required = {
        field.name
        for field in fields
        if field.default is field.default_factory is dataclasses.MISSING
    }
    if not required <= content.keys() <= names:
        differing = ", ".join(sorted((required - content.keys()) | (content.keys() - names)))
        raise UserError(f"{path} is not a manifest: missing or unknown fields: {differing}")
    _check_counts(content, path)
    return Manifest(**content)


def find_tokenizer(patterns: str) -> TokenizerDescription | None:
    """Returns the tokenizer of the records in the folders of file patterns.

    Args:
        patterns: files and wildcards, separated by commas.

    Returns:
        None if no manifest can be read, or manifests differ: whoever reads the records says so.
    """
    folders = {os.path.dirname(each) for each in split_patterns(patterns)}
    found = set()
    for folder in folders:
        with contextlib.suppress(UserError):
            manifest = load_manifest(folder)
            if manifest is not None:
                found.add(manifest.tokenizer_description)
    return found.pop() if len(found) == 1 else None


def load_manifests(files: Sequence[str]) -> dict[str, Manifest | None]:
    """Returns the manifest of the folder of each file, by folder; None where there is none."""
    directories = dict.fromkeys(os.path.dirname(path) for path in files)
    return {directory: load_manifest(directory) for directory in directories}


def _check_counts(content: dict, path: AnyPath) -> None:
    counts = content["shards"]
    if not isinstance(counts, dict) or not all(isinstance(n, int) for n in counts.values()):
        raise UserError(f"{path}: shards must map file names to numbers of records")
    if sum(counts.values()) != content["num_examples"]:
        raise UserError(
            f"{path}: num_examples is {content['num_examples']}, but the shards have "
            f"{sum(counts.values())} records"
        )
