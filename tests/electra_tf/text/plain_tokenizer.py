"""BERT tokenization in plain Python, to test the graph against: slow and obvious."""

import unicodedata
from collections.abc import Iterator

from electra_tf.text.vocabulary import Vocabulary

MAX_CODE_POINTS_PER_WORD = 200
CJK_IDEOGRAPHS = (
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
)


def plain_tokenize(
    text: str, vocabulary: Vocabulary, do_lower_case: bool = True, strip_accents: bool = True
) -> list[int]:
    """The ids of `text`, by the description in the reference data's README."""
    spaced = "".join(_cleaned(text))
    ids = []
    for word in spaced.split():
        if do_lower_case:
            word = word.lower()
            if strip_accents:
                decomposed = unicodedata.normalize("NFD", word)
                word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        isolated = "".join(f" {c} " if _is_punctuation(c) else c for c in word)
        for piece in isolated.split():
            ids.extend(_word_pieces(piece, vocabulary))
    return ids


def _cleaned(text: str) -> Iterator[str]:
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category == "Zs":
            yield " "
        elif c == "\ufffd" or category.startswith("C"):
            continue
        elif any(ord(c) in block for block in CJK_IDEOGRAPHS):
            yield f" {c} "
        else:
            yield c


def _is_punctuation(c: str) -> bool:
    ascii_symbol = "!" <= c <= "~" and not c.isalnum()
    return ascii_symbol or unicodedata.category(c).startswith("P")


def _word_pieces(word: str, vocabulary: Vocabulary) -> list[int]:
    unknown = [vocabulary.unk_id]
    if len(word) > MAX_CODE_POINTS_PER_WORD:
        return unknown
    ids, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = vocabulary.ids.get(prefix + word[start:end])
            if piece is not None:
                ids.append(piece)
                start = end
                break
        else:
            return unknown
    return ids
