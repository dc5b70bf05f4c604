"""Learns the entries of a WordPiece vocabulary: characters, then longer pieces.

The longer pieces are those that SentencePiece merges by byte-pair encoding, in its order: the
most frequent pair first. Its input is every distinct word once, with its count.
"""

import io
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from electra_tf.text.tokenizer import MAX_CODE_POINTS_PER_WORD
from electra_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from pretrain_data.vocabulary.config import MIN_VOCAB_SIZE

# Longer pieces get half of the vocabulary, and no more than this if the characters need it.
_MAX_ENTRIES_LEFT = 8000
_MAX_PIECE_LENGTH = 50
# SentencePiece's marks of the start of a word and of unknown characters.
_WORD_START = "\u2581"
_RESERVED = frozenset((_WORD_START, "\u2585"))


class Characters(NamedTuple):
    """Characters of a text.

    Attributes:
        chosen: those of the vocabulary, most frequent first.
        continuing: those that occur in words of several characters.
        num_distinct: number of all distinct ones.
        coverage: share of the text's characters that are chosen.
    """

    chosen: tuple[str, ...]
    continuing: frozenset[str]
    num_distinct: int
    coverage: float


def choose_characters(
    word_counts: Mapping[str, int],
    vocab_size: int,
    coverage: float | None = None,
    *,
    fill: bool = False,
) -> Characters:
    """Chooses the most frequent characters.

    A character takes two entries of the vocabulary, alone and as a `##` continuation, or one
    if it is always a word of its own, such as an ideograph.

    Args:
        word_counts: number of occurrences by word.
        vocab_size: vocabulary size, including special tokens.
        coverage: share of the text's characters to choose; None chooses all that fit, while
            half of the vocabulary, at most 8,000 entries, is left to longer pieces.
        fill: without `coverage`, choose enough characters to fill the vocabulary.

    Raises:
        UserError: the vocabulary has no room for the characters of this coverage.
    """
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for character in word:
            counts[character] += count
    if not counts:
        return Characters((), frozenset(), 0, 1.0)
    continuing = {character for word in word_counts if len(word) > 1 for character in word}
    total = sum(counts.values())
    room = vocab_size - len(SPECIAL_TOKENS)
    if coverage is None and not fill:
        room -= min(room // 2, _MAX_ENTRIES_LEFT)
    chosen: list[str] = []
    num_entries = num_covered = 0
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if coverage is not None and num_covered >= coverage * total:
            break
        if fill and num_entries >= room:
            break
        num_entries += 2 if character in continuing else 1
        if num_entries > room and coverage is None and not fill:
            break
        chosen.append(character)
        num_covered += count
    if num_entries > room and coverage is not None:
        raise UserError(
            f"--character_coverage={coverage:g} takes {num_entries:,} entries for "
            f"{len(chosen):,} characters: pass --vocab-size="
            f"{num_entries + len(SPECIAL_TOKENS)} or more, or a lower coverage"
        )
    return Characters(tuple(chosen), frozenset(continuing), len(counts), num_covered / total)


def learn_pieces(
    word_counts: Mapping[str, int],
    vocab_size: int,
    print_fn: Callable[[str], None] = print,
    *,
    character_coverage: float | None = None,
) -> tuple[str, ...]:
    """Learns WordPiece pieces.

    Args:
        word_counts: number of occurrences by word.
        vocab_size: number of pieces, including special tokens.
        print_fn: prints the share of the text's characters that are covered.
        character_coverage: see `choose_characters`.

    Returns:
        `SPECIAL_TOKENS`, then the characters, most frequent first, then their continuations,
        then longer pieces in the order in which they were merged.

    Raises:
        UserError: the words have too few pieces, SentencePiece is not installed, or
            `choose_characters` raises it.
    """
    characters = choose_characters(word_counts, vocab_size, character_coverage)
    pieces = _all_pieces(word_counts, characters, vocab_size)
    if len(pieces) < vocab_size and character_coverage is None:
        # There are too few longer pieces for the entries left to them.
        characters = choose_characters(word_counts, vocab_size, fill=True)
        pieces = _all_pieces(word_counts, characters, vocab_size)
    if len(pieces) < vocab_size:
        advice = "add text"
        if len(pieces) >= MIN_VOCAB_SIZE:
            advice += f", or pass --vocab-size={len(pieces)} or less"
        raise UserError(f"The corpus has only {len(pieces):,} distinct pieces: {advice}")
    print_fn(
        f"{len(characters.chosen):,} of {characters.num_distinct:,} characters, "
        f"{characters.coverage:.4%} of the text."
    )
    return tuple(pieces[:vocab_size])


def sentencepiece() -> types.ModuleType:
    """Returns the package; raises UserError if it is not installed."""
    return import_extra("sentencepiece", "corpus", "Training a vocabulary")


def _all_pieces(
    word_counts: Mapping[str, int], characters: Characters, vocab_size: int
) -> list[str]:
    """Returns the special tokens, the characters, and longer pieces, without limit of size."""
    pieces = [*SPECIAL_TOKENS, *characters.chosen]
    pieces += [f"##{char}" for char in characters.chosen if char in characters.continuing]
    merged = _merged_pieces(_learnable_words(word_counts, characters), characters, vocab_size)
    return list(dict.fromkeys([*pieces, *merged]))


def _learnable_words(word_counts: Mapping[str, int], characters: Characters) -> dict[str, int]:
    """Returns the words of several characters, all chosen; very long ones are divided."""
    chosen = frozenset(characters.chosen) - _RESERVED
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        if len(word) > 1 and chosen.issuperset(word):
            for start in range(0, len(word), MAX_CODE_POINTS_PER_WORD):
                counts[word[start : start + MAX_CODE_POINTS_PER_WORD]] += count
    return counts


def _merged_pieces(
    words: Mapping[str, int], characters: Characters, num_pieces: int
) -> Iterator[str]:
    """Yields about `num_pieces` pieces of several characters, in the order of merging."""
    if not words:
        return
    model = io.BytesIO()
    library = sentencepiece()
    library.SentencePieceTrainer.train(
        # Sorted: independent of the order in which the files were read.
        sentence_iterator=(f"{word}\t{words[word]}" for word in sorted(words)),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        # In SentencePiece, the start of a word is a character, which is merged with the first.
        vocab_size=num_pieces + 2 * len(characters.chosen) + len(_RESERVED),
        hard_vocab_limit=False,
        max_sentencepiece_length=_MAX_PIECE_LENGTH,
        # The words are as the tokenizer splits them.
        character_coverage=1.0,
        # It compares coverages in single precision, which rare characters do not change.
        required_chars="".join(sorted(frozenset(characters.chosen) - _RESERVED)),
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_by_unicode_script=False,
        split_by_number=False,
        bos_id=-1,
        eos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    processor = library.SentencePieceProcessor(model_proto=model.getvalue())
    for i in range(1, processor.get_piece_size()):  # 0 is the unknown one
        piece = processor.id_to_piece(i)
        if piece.startswith(_WORD_START):
            piece, mark = piece[1:], ""
        else:
            mark = CONTINUATION
        if len(piece) > 1:
            yield mark + piece
