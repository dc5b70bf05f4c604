"""Messages about a corpus: files left out, repaired text, null records."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from pretrain_data.corpus.formats import FORMATS
from pretrain_data.corpus.inputs import TEXT_SUFFIXES, Corpus


def print_left_out(
    corpus: Corpus, corpus_dir: pathlib.Path | None, print_fn: Callable[[str], None]
) -> None:
    """Prints which files of a corpus are not text, empty, or links to others."""
    if corpus.ignored:
        suffixes = FORMATS if corpus_dir is None else TEXT_SUFFIXES
        *others, last = suffixes
        print_fn(
            f"Ignored {len(corpus.ignored)} files not named {', '.join(others)} or {last}: "
            + _examples(corpus.ignored, corpus_dir)
        )
    if corpus.vocabularies:
        names = _examples(corpus.vocabularies, corpus_dir)
        print_fn(f"Ignored the vocabulary in the folder of the text: {names}")
    if corpus.links:
        print_fn(
            f"{len(corpus.links)} links to files that are read once, under another name: "
            + _examples(corpus.links, corpus_dir)
        )
    if corpus.empty:
        print_fn(f"{len(corpus.empty)} empty files: {_examples(corpus.empty, corpus_dir)}")


def _examples(paths: Sequence[pathlib.Path], corpus_dir: pathlib.Path | None) -> str:
    names = [str(path.relative_to(corpus_dir) if corpus_dir else path) for path in paths[:3]]
    return ", ".join([*names, *(["…"] if len(paths) > 3 else [])])


def print_repairs(invalid_utf8: Mapping[str, int], print_fn: Callable[[str], None]) -> None:
    """Prints the number of invalid UTF-8 sequences in each file."""
    for path, count in invalid_utf8.items():
        print_fn(f"{path}: {count:,} invalid UTF-8 sequences were replaced with U+FFFD.")
    if invalid_utf8:
        print_fn(
            "Text in another encoding loses characters this way: convert it, for instance "
            "with iconv -f WINDOWS-1252 -t UTF-8."
        )


def print_nulls(null_texts: Mapping[str, int], print_fn: Callable[[str], None]) -> None:
    """Prints how many records of each file have no text."""
    for path, count in null_texts.items():
        print_fn(f"{path}: {count:,} records have null as their text, and are left out.")
