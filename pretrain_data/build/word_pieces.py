"""Learns the entries of a WordPiece vocabulary: characters, then longer pieces.

TensorFlow Text's learner returns the pieces above a frequency threshold; the threshold is
searched for to reach the requested size.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

from electra_tf.text.vocabulary import MIN_VOCAB_SIZE, SPECIAL_TOKENS
from electra_tf.util.errors import UserError

# Longer pieces get half of the vocabulary, and no more than this if the characters need it.
_MAX_ENTRIES_LEFT = 8000
# The learner ignores longer words; those of scripts without spaces are learned in parts.
_MAX_LEARNED_LENGTH = 50
# The search stops at this fraction of surplus pieces; the rarest are dropped.
_SURPLUS = 0.05


class Characters(NamedTuple):
    """Characters of a text.

    Attributes:
        chosen: those of the vocabulary.
        continuing: those that occur in words of several characters.
        num_distinct: number of all distinct ones.
        coverage: share of the text's characters that are chosen.
    """

    chosen: frozenset[str]
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
        return Characters(frozenset(), frozenset(), 0, 1.0)
    continuing = {character for word in word_counts if len(word) > 1 for character in word}
    total = sum(counts.values())
    room = vocab_size - len(SPECIAL_TOKENS)
    if coverage is None and not fill:
        room -= min(room // 2, _MAX_ENTRIES_LEFT)
    chosen: set[str] = set()
    num_entries = num_covered = 0
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if coverage is not None and num_covered >= coverage * total:
            break
        if fill and num_entries >= room:
            break
        num_entries += 2 if character in continuing else 1
        if num_entries > room and coverage is None and not fill:
            break
        chosen.add(character)
        num_covered += count
    if num_entries > room and coverage is not None:
        raise UserError(
            f"--character_coverage={coverage:g} takes {num_entries:,} entries for "
            f"{len(chosen):,} characters: pass --vocab-size="
            f"{num_entries + len(SPECIAL_TOKENS)} or more, or a lower coverage."
        )
    return Characters(
        frozenset(chosen), frozenset(continuing), len(counts), num_covered / total
    )


def learn_pieces(
    word_counts: Mapping[str, int],
    vocab_size: int,
    print_fn: Callable[[str], None] = print,
    *,
    character_coverage: float | None = None,
) -> tuple[str, ...]:
    """Learns WordPiece pieces with TensorFlow Text's top-down algorithm.

    Args:
        word_counts: number of occurrences by word.
        vocab_size: number of pieces, including special tokens.
        print_fn: prints a line after each pass over the words.
        character_coverage: see `choose_characters`.

    Returns:
        `SPECIAL_TOKENS`, then the most frequent characters in order, then the other pieces,
        most frequent first.

    Raises:
        UserError: the words have too few pieces, or as `choose_characters`.
    """
    characters = choose_characters(word_counts, vocab_size, character_coverage)
    words = _learnable_words(word_counts, characters)

    def learn(threshold: int) -> list[str]:
        pieces = _learn(words, characters, threshold)
        print_fn(f"{len(pieces):,} pieces occur at least {threshold:,} times.")
        return pieces

    # The number of pieces falls with the threshold: double it until they are too few …
    low, high = 1, 2
    enough = learn(low)
    if len(enough) < vocab_size and character_coverage is None:
        # There are too few longer pieces for the entries left to them.
        characters = choose_characters(word_counts, vocab_size, fill=True)
        words = _learnable_words(word_counts, characters)
        enough = learn(low)
    if len(enough) < vocab_size:
        advice = "add text"
        if len(enough) >= MIN_VOCAB_SIZE:
            advice += f", or pass --vocab-size={len(enough)} or less"
        raise UserError(f"The corpus has only {len(enough):,} distinct pieces: {advice}.")
    print_fn(
        f"{len(characters.chosen):,} of {characters.num_distinct:,} characters, "
        f"{characters.coverage:.4%} of the text."
    )
    most = max((count for _, count in words), default=0)
    while low <= most and len(pieces := learn(high)) >= vocab_size:
        low, high, enough = high, 2 * high, pieces
    # … then bisect.
    while high - low > 1 and len(enough) > (1 + _SURPLUS) * vocab_size:
        middle = (low + high) // 2
        pieces = learn(middle)
        if len(pieces) >= vocab_size:
            low, enough = middle, pieces
        else:
            high = middle
    return _without_rarest(enough, len(enough) - vocab_size)


def _learnable_words(
    word_counts: Mapping[str, int], characters: Characters
) -> list[tuple[str, int]]:
    """Returns words of chosen characters, most frequent first, long ones in parts."""
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        if not characters.chosen.issuperset(word):
            continue
        for start in range(0, len(word), _MAX_LEARNED_LENGTH):
            counts[word[start : start + _MAX_LEARNED_LENGTH]] += count
    # Independent of the order in which the files were read.
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _learn(words: list[tuple[str, int]], characters: Characters, threshold: int) -> list[str]:
    """Returns the special tokens, the characters, and the pieces above a threshold."""
    # A chosen character may occur in no other words than those with rarer ones.
    missing = characters.chosen.difference(*(word for word, _ in words))
    pieces = wordpiece_tokenizer_learner_lib.learn(
        [*words, *((character, 1) for character in sorted(missing))],
        len(words),
        list(SPECIAL_TOKENS),
        upper_thresh=threshold,
        lower_thresh=threshold,
        max_token_length=_MAX_LEARNED_LENGTH,
        max_unique_chars=len(characters.chosen),
    )
    # The learner adds a continuation of every character.
    useless = {f"##{character}" for character in characters.chosen - characters.continuing}
    return [piece for piece in pieces if piece not in useless]


def _without_rarest(pieces: list[str], count: int) -> tuple[str, ...]:
    """Drops the last `count` pieces longer than one character, and then continuations."""
    kept = []
    for piece in reversed(pieces):
        if count and len(piece.removeprefix("##")) > 1 and piece not in SPECIAL_TOKENS:
            count -= 1
        else:
            kept.append(piece)
    pieces, kept = kept, []
    for piece in pieces:
        if count and piece.startswith("##"):
            count -= 1
        else:
            kept.append(piece)
    return tuple(reversed(kept))
