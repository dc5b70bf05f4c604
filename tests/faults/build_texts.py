"""Text for `tests.faults.builder`: a corpus, every code point, and very long lines."""

import pathlib
import random
from collections.abc import Iterator

# Kinds of lines: words with spaces, no space at all, and ideographs.
LINES = ("words", "no spaces", "ideographs")
_NUM_FILES, _FILE_BYTES = 6, 120_000
_WORDS = ("the", "sea", "and", "storm", "harbour", "night", "town", "people", "boat", ".")
_PIECE = 1 << 20
_SURROGATES = range(0xD800, 0xE000)


def write_corpus(folder: pathlib.Path) -> None:
    """Writes a few files of text, the same ones each time."""
    generator = random.Random(4)
    folder.mkdir()
    for number in range(_NUM_FILES):
        lines, size = [], 0
        while size < _FILE_BYTES:
            words = generator.choices(_WORDS, k=12)
            lines.append(" ".join([f"{generator.randrange(10**5)}", *words]))
            size += len(lines[-1]) + 1
            if not generator.randrange(8):
                lines.append("")
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n")


def every_code_point(path: pathlib.Path, first: int = 0, last: int = 0x10FFFF) -> None:
    """Writes a text of all code points in a range that UTF-8 can represent: each three times.

    They are a word of their own, in the middle of a word, and behind each other.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        for start in range(first, last + 1, 64):
            part = [
                chr(point)
                for point in range(start, min(start + 64, last + 1))
                if point not in _SURROGATES
            ]
            file.write(" ".join(part) + "\n")
            file.write(" ".join(f"sea{each}side" for each in part) + "\n")
            file.write("".join(part) + "\n")


def write_long_line(path: pathlib.Path, kind: str, megabytes: float) -> None:
    """Writes one line of so many megabytes."""
    left = int(megabytes * 1_000_000)
    with path.open("wb") as file:
        for piece in _pieces(kind):
            content = piece.encode()[:left]
            file.write(content if len(content) < left else content[: left - 1] + b"\n")
            left -= len(content)
            if not left:
                return


def _pieces(kind: str) -> Iterator[str]:
    generator = random.Random(kind)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    while True:
        if kind == "words":
            words = (f"{word} " for word in generator.choices(_WORDS, k=_PIECE // 6))
            yield "".join(words)
        elif kind == "no spaces":
            yield "".join(generator.choices(alphabet, k=_PIECE))
        else:
            yield "".join(map(chr, generator.choices(range(0x4E00, 0x9FFF), k=_PIECE // 3)))
