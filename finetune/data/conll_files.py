"""Reads sentences of CoNLL files: tells words from comments and lines without a token."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

DOCUMENT_START = "-DOCSTART-"
# Such as "# sent_id = 5" and "# newdoc id = a" of CoNLL-U.
_KEY_VALUE = re.compile(r"#\s*[\w.:-]+(\s+[\w.:-]+)?\s+=(\s|$)")
_COMMENT = re.compile(r"#\s")
_NUMBER = re.compile(r"[0-9]+")
# Numbers of CoNLL-U's multiword tokens ("3-4") and of its empty nodes ("8.1").
_NOT_A_TOKEN = re.compile(r"[0-9]+[-.][0-9]+")
# A sentence of fewer words may consist of numbers.
_NUMBERED_WORDS = 3


class _Line(NamedTuple):
    """A line with columns, or (without cells) one that ends a sentence."""

    number: int
    text: str
    cells: list[str]


def read_sentences(
    path: str, lines: Sequence[str], find_columns: Callable[[int], Mapping[str, int]]
) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yields the number of the first line of each sentence, and its values by role.

    Blank lines, and those whose first column is -DOCSTART-, end a sentence. Before its first
    word, these lines are comments:

    - if words are in a later column, as in CoNLL-U, lines that start with "#";
    - otherwise lines that start with "#" and white space, unless they have the columns of the
      file and a tag that other words have: "# # B-NP" is a word.

    Where the first column numbers the words, as in CoNLL-U, lines numbered "3-4" or "8.1"
    are left out. Trailing tabs in every line do not count as columns; the authors' code
    strips them.

    Args:
        path: the file, for errors.
        lines: its lines.
        find_columns: returns the index of each role's column, given the number of columns;
            without a role "words", they are in the first column.

    Raises:
        UserError: lines have different numbers of columns, or the words are numbers 1, 2, 3, …
    """
    rows = [_parse(number, line) for number, line in enumerate(lines, start=1)]
    words = [row for row in rows if row.cells and not row.text.startswith("#")]
    _drop_empty_columns(rows, words)
    first = next(iter(words or [row for row in rows if row.cells]), None)
    if first is None:
        return
    width = len(first.cells)
    columns = {role: index % width for role, index in find_columns(width).items()}
    word_column, tag_column = columns.get("words", 0), columns.get("tags", width - 1)
    tags = {row.cells[tag_column] for row in words if len(row.cells) == width}
    numbered = word_column != 0 and all(
        _NUMBER.fullmatch(row.cells[0]) or _NOT_A_TOKEN.fullmatch(row.cells[0]) for row in words
    )

    def is_comment(row: _Line) -> bool:
        if not row.text.startswith("#"):
            return False
        if word_column != 0:
            return True
        if not _COMMENT.match(row.text):
            return False  # a hashtag
        is_split_alike = "\t" in row.text or "\t" not in first.text
        if len(row.cells) != width or not is_split_alike or _KEY_VALUE.match(row.text):
            return True
        if row.cells[tag_column] in tags:
            return False
        warn_once(
            f"{path}: line {row.number} ({row.text[:40]!r}) is taken for a comment: no other "
            f"word has the tag {row.cells[tag_column]!r}"
        )
        return True

    start, sentence = 0, {}
    # The blank line after the last sentence may be missing.
    for row in (*rows, _Line(0, "", [])):
        if not row.cells:
            if sentence:
                _refuse_numbers(path, start, sentence.get("words", ()), width)
                yield start, sentence
            sentence = {}
        elif not sentence and is_comment(row):
            continue
        elif len(row.cells) != width:
            raise UserError(
                f"{path}: line {row.number} has {_columns(len(row.cells))}, but line "
                f"{first.number} has {width}"
            )
        elif not (numbered and _NOT_A_TOKEN.fullmatch(row.cells[0])):
            if not sentence:
                start, sentence = row.number, {role: [] for role in columns}
            for role, index in columns.items():
                sentence[role].append(row.cells[index].strip())


def _parse(number: int, line: str) -> _Line:
    cells = line.split()
    if not cells or cells[0] == DOCUMENT_START:
        return _Line(number, line, [])
    return _Line(number, line, line.split("\t") if "\t" in line.strip() else cells)


def _drop_empty_columns(rows: Sequence[_Line], words: Sequence[_Line]) -> None:
    """Removes the last columns that are empty in all lines of words."""
    while words and all(len(row.cells) > 1 and not row.cells[-1].strip() for row in words):
        for row in rows:
            if len(row.cells) > 1 and not row.cells[-1].strip():
                row.cells.pop()


def _refuse_numbers(path: str, line: int, words: Sequence[str], width: int) -> None:
    """Raises UserError if words are 1, 2, 3, … and the file has more columns."""
    numbers = [str(number) for number in range(1, len(words) + 1)]
    if width > 2 and len(words) >= _NUMBERED_WORDS and list(words) == numbers:
        raise UserError(
            f"{path}: the words of the sentence at line {line} are {', '.join(words[:3])}, …: "
            'the words are in another column. "columns" of CoNLL-U are {"words": 1, '
            '"tags": 3} for parts of speech'
        )


def _columns(number: int) -> str:
    return f"{number} column" if number == 1 else f"{number} columns"
