"""How well a vocabulary covers a text: pieces per word, unknown words, unused entries."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary
from electra_tf.util.console import markdown_table

_WORDS_AT_ONCE = 1 << 16
_NUM_EXAMPLES = 8


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Counts of a text that is tokenized with a vocabulary.

    Attributes:
        vocabulary: the vocabulary.
        num_words: number of words.
        num_characters: number of their characters.
        num_unknown_characters: number of those in words that became [UNK].
        num_pieces: number of tokens, one for an unknown word.
        num_whole: number of words that are one token, other than [UNK].
        piece_counts: int64 [vocabulary.size]; number of occurrences of each entry.
    """

    vocabulary: Vocabulary
    num_words: int
    num_characters: int
    num_unknown_characters: int
    num_pieces: int
    num_whole: int
    piece_counts: np.ndarray

    @property
    def num_unknown(self) -> int:
        """Number of words that became [UNK]."""
        return int(self.piece_counts[self.vocabulary.unk_id])

    @property
    def unknown_text(self) -> float:
        """Share of the characters in words that became [UNK]."""
        return self.num_unknown_characters / self.num_characters

    def longest(self) -> list[str]:
        """Returns the longest entries of the text, without special tokens."""
        pieces = self._occurring()
        return sorted(pieces, key=lambda piece: -len(piece.removeprefix(CONTINUATION)))

    def rarest(self) -> list[str]:
        """Returns the entries of the text, the rarest first, without special tokens."""
        ids = self.vocabulary.ids
        return sorted(self._occurring(), key=lambda piece: self.piece_counts[ids[piece]])

    def unused(self) -> list[str]:
        """Returns the entries that are not in the text, without special tokens."""
        return self._entries(self.piece_counts == 0)

    def _occurring(self) -> list[str]:
        return self._entries(self.piece_counts > 0)

    def _entries(self, chosen: np.ndarray) -> list[str]:
        tokens = (self.vocabulary.tokens[i] for i in np.flatnonzero(chosen))
        return [token for token in tokens if token not in SPECIAL_TOKENS]


def measure(vocabulary: Vocabulary, word_counts: Mapping[str, int]) -> Coverage:
    """Returns how a vocabulary covers a text.

    Args:
        vocabulary: the vocabulary.
        word_counts: number of occurrences by word, as `split_words` returns them.
    """
    tokenizer = Tokenizer(vocabulary)
    words = list(word_counts)
    num_characters = num_unknown_characters = num_pieces = num_whole = 0
    piece_counts = np.zeros(vocabulary.size, np.int64)
    for start in range(0, len(words), _WORDS_AT_ONCE):
        batch = words[start : start + _WORDS_AT_ONCE]
        counts = np.array([word_counts[word] for word in batch], np.int64)
        rows = tokenizer.cut_words(tf.constant([word.encode() for word in batch], tf.string))
        ids, lengths = rows.values.numpy(), rows.row_lengths().numpy()
        np.add.at(piece_counts, ids, np.repeat(counts, lengths))
        num_pieces += int(lengths @ counts)
        is_unknown = ids[rows.row_starts().numpy()] == vocabulary.unk_id
        num_whole += int(((lengths == 1) & ~is_unknown) @ counts)
        characters = np.array([len(word) for word in batch]) * counts
        num_characters += int(characters.sum())
        num_unknown_characters += int(is_unknown @ characters)
    return Coverage(
        vocabulary,
        sum(word_counts.values()),
        num_characters,
        num_unknown_characters,
        num_pieces,
        num_whole,
        piece_counts,
    )


def print_report(coverages: Sequence[Coverage], print_fn: Callable[[str], None]) -> None:
    """Prints one or more vocabularies side by side, then examples of their pieces."""
    names = [str(coverage.vocabulary.path) for coverage in coverages]
    values: dict[str, Callable[[Coverage], str]] = {
        "entries": lambda c: f"{c.vocabulary.size:,}",
        "words": lambda c: f"{c.num_words:,}",
        "pieces per word": lambda c: f"{c.num_pieces / c.num_words:.3f}",
        "words of one piece": lambda c: f"{c.num_whole / c.num_words:.2%}",
        "unknown words": lambda c: f"{c.num_unknown / c.num_words:.3%}",
        "text in unknown words": lambda c: f"{c.unknown_text:.3%}",
        "unused entries": lambda c: f"{len(c.unused()):,}",
    }
    rows = [[name, *map(value, coverages)] for name, value in values.items()]
    print_fn(markdown_table(["held-out text", *names], rows, text_columns=1))
    for name, coverage in zip(names, coverages, strict=True):
        print_fn(
            f"{name}\n"
            f"  longest pieces: {_examples(coverage.longest())}\n"
            f"  rarest pieces:  {_examples(coverage.rarest())}\n"
            f"  unused:         {_examples(coverage.unused())}"
        )


def _examples(pieces: Sequence[str]) -> str:
    return ", ".join([*pieces[:_NUM_EXAMPLES], *(["…"] if len(pieces) > _NUM_EXAMPLES else [])])
