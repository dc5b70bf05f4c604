"""Splits lines into sentences by the rules of `sentencex` for a language."""

import dataclasses
import re
import types
import unicodedata

from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from pretrain_data.corpus.blocks import Block

SENTENCES_FLAG, LANGUAGE_FLAG = "--sentences", "--sentence_language"
SENTENCES_CHOICES = ("lines", "split")
_LANGUAGE = re.compile("[a-z]{2,3}(-[A-Za-z0-9]+)*")


def check_sentences(sentences: str, language: str) -> None:
    """Raises UserError if a setting is invalid, or the package is missing."""
    if sentences not in SENTENCES_CHOICES:
        choices = ", ".join(SENTENCES_CHOICES)
        raise UserError(f"{SENTENCES_FLAG} must be one of {choices}, not {sentences}")
    if sentences == "split":
        if not _LANGUAGE.fullmatch(language):
            raise UserError(
                f"{LANGUAGE_FLAG} must be the code of a language, such as en or ko, not "
                f"{language!r}"
            )
        _sentencex()


class SentenceSplitter:
    """Makes a line of every sentence. A sentence never ends inside of a word."""

    def __init__(self, language: str):
        """Initializes the splitter.

        Args:
            language: ISO 639 code; English rules apply where there are none for it.

        Raises:
            UserError: the package is not installed.
        """
        self._language = language
        self._segment = _sentencex().segment

    def split_block(self, block: Block) -> Block:
        """Returns the block with a line per sentence; documents end where they did."""
        lines: list[str] = []
        ends = []
        for line in block.lines:
            lines += self.split_line(line)
            ends.append(len(lines))
        document_ends = block.document_ends
        if document_ends is not None:
            document_ends = tuple(ends[end - 1] if end else 0 for end in document_ends)
        return dataclasses.replace(block, lines=lines, document_ends=document_ends)

    def split_line(self, line: str) -> list[str]:
        """Returns the sentences of a line; joined, they are the line, and none is blank."""
        if not line or line.isspace():
            return [line]
        sentences: list[str] = []
        for piece in self._segment(self._language, line):
            if sentences and (
                piece.isspace() or sentences[-1].isspace() or _in_word(sentences[-1], piece)
            ):
                sentences[-1] += piece
            else:
                sentences.append(piece)
        return sentences


def _in_word(before: str, after: str) -> bool:
    """Whether the tokenizer may see one word on both sides of a cut."""
    return not (_divides(before[-1]) or _divides(after[0]))


def _divides(character: str) -> bool:
    category = unicodedata.category(character)
    is_symbol = character.isascii() and not character.isalnum() and category != "Cc"
    return is_symbol or category == "Zs" or category[0] == "P" or character in "\t\r\n"


def _sentencex() -> types.ModuleType:
    return import_extra("sentencex", "corpus", f"{SENTENCES_FLAG}=split")
