"""Trains a WordPiece vocabulary on a directory of text.

Words are split by the project's tokenizer. TensorFlow Text's learner returns the pieces
above a frequency threshold; the threshold is searched for to reach the requested size.
"""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

from electra_tf.text.description import (
    TokenizerDescription,
    description_file,
    write_tokenizer_description,
)
from electra_tf.text.tokenizer import Tokenizer, split_words
from electra_tf.text.vocabulary import (
    MIN_VOCAB_SIZE,
    SPECIAL_TOKENS,
    Vocabulary,
    VocabularyBuildConfig,
    load_vocabulary,
)
from electra_tf.util.console import ProgressBar, format_seconds
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from pretrain_data.corpus.text_files import Corpus, find_corpus

OUTPUT_FLAG = "--output-file"
# Longer pieces get half of the vocabulary, and no more than this if the characters need it.
_MAX_ENTRIES_LEFT = 8000
# The learner ignores longer words; those of scripts without spaces are learned in parts.
_MAX_LEARNED_LENGTH = 50
# A Korean share of words from which stripping accents is worth a warning.
_WARNED_KOREAN_SHARE = 0.01
_FIRST_JAMO, _LAST_JAMO = "\u1100", "\u11ff"
# The search stops at this fraction of surplus pieces; the rarest are dropped.
_SURPLUS = 0.05


def build_vocabulary(
    config: VocabularyBuildConfig, print_fn: Callable[[str], None] = print
) -> Vocabulary:
    """Trains a vocabulary and writes it to `config.output_file`.

    The same text and settings give the same file.

    Args:
        config: settings of the training.
        print_fn: prints a message.

    Returns:
        The vocabulary.

    Raises:
        UserError: a setting, the corpus or the output file is invalid. Nothing was replaced.
    """
    start = time.monotonic()
    if config.vocab_size < MIN_VOCAB_SIZE:
        raise UserError(
            f"--vocab-size must be at least {MIN_VOCAB_SIZE}, not {config.vocab_size}."
        )
    _check_output_file(config)
    corpus = find_corpus(config.corpus_dir)
    word_counts = count_words(corpus, config.do_lower_case, config.strip_accents)
    if not word_counts:
        raise UserError(f"The corpus in {config.corpus_dir} contains no words.")
    print_fn(f"{sum(word_counts.values()):,} words, {len(word_counts):,} of them distinct.")
    _warn_of_jamo(config, word_counts, print_fn)
    pieces = learn_pieces(
        word_counts, config.vocab_size, print_fn, character_coverage=config.character_coverage
    )
    try:
        write_atomically(str(config.output_file), "\n".join(pieces) + "\n")
    except OSError as error:
        raise UserError(
            f"Vocabulary file {config.output_file} ({OUTPUT_FLAG}) cannot be written: "
            f"{error.strerror}."
        ) from error
    vocabulary = load_vocabulary(config.output_file, OUTPUT_FLAG)
    description = TokenizerDescription(
        vocab_sha256=vocabulary.sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )
    write_tokenizer_description(config.output_file, description)
    _print_result(config, vocabulary, word_counts, time.monotonic() - start, print_fn)
    return vocabulary


def count_words(corpus: Corpus, do_lower_case: bool, strip_accents: bool) -> Counter[str]:
    """Counts the words of all files, as split by the tokenizer."""
    word_counts: Counter[str] = Counter()
    num_disk_bytes, num_text_bytes = 0, 0
    progress = ProgressBar(
        sum(part.num_disk_bytes for part in corpus.parts), unit="distinct words"
    )
    for part in corpus.parts:
        for block in part.read():
            # Most space-separated parts occur many times; split each only once.
            part_counts: Counter[str] = Counter()
            for line in block.lines:
                part_counts.update(line.split(" "))
            words_of_parts = split_words(
                tf.constant([text.encode() for text in part_counts], tf.string),
                do_lower_case,
                strip_accents,
            ).to_list()
            for words, count in zip(words_of_parts, part_counts.values(), strict=True):
                for word in words:
                    word_counts[word.decode()] += count
            num_disk_bytes += block.num_disk_bytes
            num_text_bytes += block.num_text_bytes
            progress.update(num_disk_bytes, num_text_bytes, len(word_counts))
    progress.close()
    return word_counts


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


def _warn_of_jamo(
    config: VocabularyBuildConfig,
    word_counts: Mapping[str, int],
    print_fn: Callable[[str], None],
) -> None:
    if not (config.do_lower_case and config.strip_accents):
        return
    num_korean = sum(
        count
        for word, count in word_counts.items()
        if any(_FIRST_JAMO <= character <= _LAST_JAMO for character in word)
    )
    share = num_korean / sum(word_counts.values())
    if share >= _WARNED_KOREAN_SHARE:
        print_fn(
            f"Warning: {share:.0%} of the words are Korean, and stripping accents takes their "
            "syllables apart: pass --no-strip-accents."
        )


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


def _check_output_file(config: VocabularyBuildConfig) -> None:
    where = f"Vocabulary file {config.output_file} ({OUTPUT_FLAG})"
    if config.output_file.is_dir():
        raise UserError(f"{where} is a directory; pass the path of a file.")
    if config.output_file.exists() and not config.overwrite:
        raise UserError(
            f"{where} exists. Pass another path, or --overwrite to replace it. Records and "
            "models built with it depend on it."
        )


def _print_result(
    config: VocabularyBuildConfig,
    vocabulary: Vocabulary,
    word_counts: Mapping[str, int],
    seconds: float,
    print_fn: Callable[[str], None],
) -> None:
    # The words have been normalized already.
    tokenizer = Tokenizer(vocabulary, do_lower_case=False)
    ids_of_words = tokenizer.tokenize([word.encode() for word in word_counts]).to_list()
    num_pieces = num_unknown = 0
    for ids, count in zip(ids_of_words, word_counts.values(), strict=True):
        num_pieces += len(ids) * count
        num_unknown += ids.count(vocabulary.unk_id) * count
    num_words = sum(word_counts.values())
    print_fn(
        f"{vocabulary.size:,} entries in {format_seconds(seconds)}: "
        f"{num_pieces / num_words:.2f} pieces per word, {num_unknown / num_words:.3%} of the "
        "words unknown.\n"
        f"Vocabulary: {config.output_file}\n"
        f"Tokenizer:  {description_file(config.output_file)}\n"
        "Next:       python build_pretraining_dataset.py "
        f"--corpus-dir {shlex.quote(str(config.corpus_dir))} "
        f"--vocab-file {shlex.quote(str(config.output_file))} "
        f"--output-dir {shlex.quote(str(config.output_file.parent / 'pretrain_tfrecords'))}"
    )
