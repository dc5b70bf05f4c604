"""Finds the files of a corpus: a folder of text, or files, globs and folders of any format."""

import dataclasses
import glob
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.paths import AnyPath, given_path, is_remote
from pretrain_data.corpus.file_search import (
    begins_as_vocabulary,
    exists,
    files_below,
    full_name,
    identity_of,
    is_copy,
    matching_paths,
    size_of,
)
from pretrain_data.corpus.formats import (
    FORMATS,
    FormatOptions,
    make_part,
    suffix_of,
    unknown_format,
)
from pretrain_data.corpus.partition import CorpusPart
from pretrain_data.corpus.readers.arrow_files import (
    SPLITS_FILE,
    SUFFIX,
    check_one_split,
    is_of_saved_dataset,
)
from pretrain_data.corpus.readers.text_files import CORPUS_FLAG
from pretrain_data.corpus.unreadable import (
    FILE,
    UnreadableError,
    reason_of_os_error,
)

INPUT_FLAG = "--input"
# The suffixes that --corpus-dir, the authors' flag, reads.
TEXT_SUFFIXES = (".txt", ".txt.gz")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files of a corpus.

    Attributes:
        parts: the files, sorted by path.
        ignored: files in its folders of another format.
        unreadable: files and folders that cannot be read, with the reason.
        empty: files of no bytes.
        links: names of files that are read under another name.
        vocabularies: vocabulary files in its folders, which are left out.
    """

    parts: tuple[CorpusPart, ...]
    ignored: tuple[pathlib.Path, ...]
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    empty: tuple[pathlib.Path, ...] = ()
    links: tuple[pathlib.Path, ...] = ()
    vocabularies: tuple[pathlib.Path, ...] = ()


def find_corpus(
    corpus_dir: str | pathlib.Path,
    *,
    skip_unreadable: bool = False,
    vocabularies: Collection[AnyPath] = (),
) -> Corpus:
    """Finds the `.txt` and `.txt.gz` files in `corpus_dir`, recursively.

    If there are none, files whose names have no suffix are text: the authors' program reads
    every file, and WikiExtractor names its output `wiki_00`. Hidden files and folders are
    skipped; links to folders are followed.

    Args:
        corpus_dir: the folder.
        skip_unreadable: list what cannot be read instead of failing.
        vocabularies: vocabulary files, which are left out with their copies.

    Raises:
        UserError: the folder does not exist or contains no text.
        UnreadableError: a file or folder cannot be read.
    """
    corpus_dir = pathlib.Path(corpus_dir)
    if not corpus_dir.exists():
        raise UserError(f"Corpus folder {corpus_dir} ({CORPUS_FLAG}) does not exist")
    if not corpus_dir.is_dir():
        raise UserError(
            f"{CORPUS_FLAG} must be a folder of .txt or .txt.gz files; {corpus_dir} is a file. "
            f"Pass its parent folder, or files with {INPUT_FLAG}"
        )
    finder = _Finder(
        FormatOptions(flag=CORPUS_FLAG), skip_unreadable, TEXT_SUFFIXES, vocabularies
    )
    finder.add_folder(corpus_dir)
    if not (finder.parts or finder.unreadable):
        finder.add_files_without_suffix()
    if not finder.parts:
        num_others = len(finder.ignored) + len(finder.vocabularies)
        others = f", only {num_others} other files" if num_others else ""
        raise UserError(
            f"Corpus folder {corpus_dir} ({CORPUS_FLAG}) contains no .txt or .txt.gz files"
            f"{others}"
        )
    if len(finder.empty) == len(finder.parts):
        raise UserError(
            f"All {len(finder.parts)} text files in {corpus_dir} ({CORPUS_FLAG}) are empty"
        )
    return finder.corpus()


def find_inputs(
    inputs: Sequence[str],
    options: FormatOptions | None = None,
    *,
    skip_unreadable: bool = False,
    vocabularies: Collection[AnyPath] = (),
) -> Corpus:
    """Finds the files of every format in `FORMATS` that files, globs and folders name.

    Folders are searched as by `find_corpus`, and `**` in a glob matches any depth. A file
    that several entries name is read once.

    Args:
        inputs: paths and globs.
        options: settings of the formats.
        skip_unreadable: list what cannot be read instead of failing.
        vocabularies: vocabulary files, which are left out with their copies.

    Raises:
        UserError: an entry matches nothing, or a file that is not in a known format; all files
            are empty; or a file does not fit the options.
        UnreadableError: a file or folder cannot be read.
    """
    options = options or FormatOptions()
    if not inputs:
        raise UserError(f"{options.flag} names no file, glob or folder")
    finder = _Finder(options, skip_unreadable, tuple(FORMATS), vocabularies)
    for entry in inputs:
        path = given_path(entry)
        if exists(path, options.flag):
            paths = [path]
        elif glob.has_magic(entry):
            paths = matching_paths(path, options.flag)
            if not paths:
                raise UserError(f"{options.flag}: no file matches {entry}")
        else:
            raise UserError(f"{options.flag}: {entry} does not exist")
        before = finder.num_found
        for found in paths:
            if found.is_dir():
                finder.add_folder(found)
            elif suffix_of(found) is None and paths == [path]:
                raise UserError(f"{options.flag}: {found} {unknown_format(found)}")
            else:
                finder.add_file(found)
        if before == finder.num_found:
            raise UserError(
                f"{options.flag}: {entry} contains no files of a corpus format "
                f"({', '.join(FORMATS)})"
            )
    if finder.vocabularies and not (finder.parts or finder.unreadable):
        raise UserError(f"{options.flag}: the only file is a vocabulary")
    if finder.parts and len(finder.empty) == len(finder.parts):
        raise UserError(
            f"{options.flag}: all {len(finder.parts)} files are empty, such as "
            f"{finder.empty[0]}"
        )
    return finder.corpus()


def find_text(
    corpus_dir: pathlib.Path | None,
    inputs: Sequence[str],
    *,
    text_field: str = "text",
    text_column: str = "text",
    skip_unreadable: bool = False,
    vocabularies: Collection[AnyPath] = (),
) -> Corpus:
    """Finds the files of either `--corpus-dir` or `--input`.

    Args:
        corpus_dir: value of `--corpus-dir`, or None.
        inputs: entries of `--input`; empty if it is not given.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet and Arrow.
        skip_unreadable, vocabularies: see `find_corpus`.

    Raises:
        UserError: both or none are given, or `find_corpus` or `find_inputs` raises it.
    """
    if (corpus_dir is None) == (not inputs):
        raise UserError(f"Pass exactly one of {INPUT_FLAG} and {CORPUS_FLAG}")
    if corpus_dir is not None:
        return find_corpus(
            corpus_dir, skip_unreadable=skip_unreadable, vocabularies=vocabularies
        )
    options = FormatOptions(INPUT_FLAG, text_field, text_column)
    return find_inputs(
        inputs, options, skip_unreadable=skip_unreadable, vocabularies=vocabularies
    )


def warn_of_unused_names(
    parts: Sequence[CorpusPart], text_field: str, text_column: str
) -> None:
    """Warns of --text_field or --text_column if there are no files of its format.

    Args:
        parts: the files.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet and Arrow.
    """
    suffixes = {suffix_of(part.path) or "" for part in parts}
    for flag, name, default, kinds, files in (
        ("--text_field", text_field, FormatOptions.text_field, (".jsonl",), "JSONL"),
        (
            "--text_column",
            text_column,
            FormatOptions.text_column,
            (".parquet", ".arrow"),
            "Parquet or Arrow",
        ),
    ):
        if name != default and not any(suffix.startswith(kinds) for suffix in suffixes):
            warn_once(f"{flag}={name} has no effect: the text is not in {files} files")


class _Finder:
    """Collects files."""

    def __init__(
        self,
        options: FormatOptions,
        skip_unreadable: bool,
        suffixes: Collection[str],
        vocabularies: Collection[AnyPath],
    ):
        self._options = options
        self._skip_unreadable = skip_unreadable
        self._suffixes = suffixes
        self._vocabularies = frozenset(map(identity_of, vocabularies))
        # Files with which others are compared, since folders of models have copies.
        self._copied = [path for path in map(str, vocabularies) if os.path.isfile(path)]
        self._seen: set[str] = set()
        self._names: set[str] = set()
        self.parts: list[CorpusPart] = []
        self.ignored: list[pathlib.Path] = []
        self.unreadable: dict[str, str] = {}
        self.empty: list[pathlib.Path] = []
        self.links: list[pathlib.Path] = []
        self.vocabularies: list[pathlib.Path] = []
        self.num_repeated = 0

    @property
    def num_found(self) -> int:
        """Number of files and folders that are not ignored, by all of their names."""
        found = (self.parts, self.unreadable, self.vocabularies)
        return sum(map(len, found)) + self.num_repeated

    def corpus(self) -> Corpus:
        return Corpus(
            tuple(sorted(self.parts, key=lambda part: (is_remote(part.path), part.path))),
            tuple(self.ignored),
            self.unreadable,
            tuple(self.empty),
            tuple(path for path in self.links if full_name(path) not in self._names),
            tuple(self.vocabularies),
        )

    def add_folder(self, folder: AnyPath) -> None:
        for path in files_below(folder, self._options.flag, self._refuse):
            if path.name == SPLITS_FILE and SUFFIX in self._suffixes:
                check_one_split(path, self._options.flag)
            if path.suffix == SUFFIX and not is_of_saved_dataset(path):
                self.ignored.append(path)
            else:
                self.add_file(path)

    def add_file(self, path: AnyPath) -> None:
        if suffix_of(path) not in self._suffixes:
            if path.exists():
                self.ignored.append(path)
            else:
                self._refuse_file(path, "is a broken link")
            return
        self._add_part(path)

    def add_files_without_suffix(self) -> None:
        """Adds the ignored files whose names have no suffix, as text."""
        ignored, self.ignored = self.ignored, []
        for path in ignored:
            if path.suffix:
                self.ignored.append(path)
            else:
                self._add_part(path)

    def _add_part(self, path: pathlib.Path) -> None:
        identity = identity_of(path)
        if identity in self._vocabularies:
            self.vocabularies.append(path)
            return
        if identity in self._seen:
            self.num_repeated += 1
            self.links.append(path)
            return
        self._seen.add(identity)
        self._names.add(full_name(path))
        try:
            num_bytes = size_of(path)
            if num_bytes and is_copy(path, self._copied):
                self.vocabularies.append(path)
                return
            if num_bytes and begins_as_vocabulary(path):
                warn_once(
                    f"{self._options.flag}: {path} has [CLS], [SEP] and [MASK] in lines of "
                    "their own, like a vocabulary, but is read as text: move it to another "
                    "folder"
                )
            part = make_part(path, num_bytes, self._options)
        except UnreadableError as error:
            self._refuse(error)
        except OSError as error:
            self._refuse_file(path, reason_of_os_error(error))
        else:
            self.parts.append(part)
            if not num_bytes:
                self.empty.append(path)

    def _refuse_file(self, path: pathlib.Path, reason: str) -> None:
        self._refuse(UnreadableError(FILE, path, self._options.flag, reason))

    def _refuse(self, error: UnreadableError) -> None:
        if not self._skip_unreadable:
            raise error
        self.unreadable[error.path] = error.reason
