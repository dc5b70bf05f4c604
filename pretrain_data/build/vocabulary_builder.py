"""Trains a WordPiece vocabulary on a directory of text.

Words are split by the project's tokenizer. TensorFlow Text's learner returns the pieces
above a frequency threshold; the threshold is searched for to reach the requested size.
"""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

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
# Each character takes two entries, alone and as a `##` continuation: at most a third in all.
_CHARACTERS_SHARE = 6
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
    pieces = learn_pieces(word_counts, config.vocab_size, print_fn)
    try:
        write_atomically(str(config.output_file), "\n".join(pieces) + "\n")
    except OSError as error:
        raise UserError(
            f"Vocabulary file {config.output_file} ({OUTPUT_FLAG}) cannot be written: "
            f"{error.strerror}."
        ) from error
    vocabulary = load_vocabulary(config.output_file, OUTPUT_FLAG)
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


def learn_pieces(
    word_counts: Mapping[str, int], vocab_size: int, print_fn: Callable[[str], None] = print
) -> tuple[str, ...]:
    """Learns WordPiece pieces with TensorFlow Text's top-down algorithm.

    Args:
        word_counts: number of occurrences by word.
        vocab_size: number of pieces, including special tokens.
        print_fn: prints a line after each pass over the words.

    Returns:
        `SPECIAL_TOKENS`, then the most frequent characters in order, then the other pieces,
        most frequent first.

    Raises:
        UserError: the words have too few pieces.
    """
    # Independent of the order in which the files were read.
    words = sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))

    def learn(threshold: int) -> list[str]:
        pieces = wordpiece_tokenizer_learner_lib.learn(
            words,
            vocab_size,
            list(SPECIAL_TOKENS),
            upper_thresh=threshold,
            lower_thresh=threshold,
            max_unique_chars=vocab_size // _CHARACTERS_SHARE,
        )
        print_fn(f"{len(pieces):,} pieces occur at least {threshold:,} times.")
        return pieces

    # The number of pieces falls with the threshold: double it until they are too few …
    low, high = 1, 2
    enough = learn(low)
    if len(enough) < vocab_size:
        raise UserError(
            f"The corpus has only {len(enough):,} distinct pieces: add text, or pass "
            f"--vocab-size={len(enough)} or less."
        )
    while len(pieces := learn(high)) >= vocab_size:
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


def _without_rarest(pieces: list[str], count: int) -> tuple[str, ...]:
    """Drops the last `count` pieces longer than one character."""
    kept = []
    for piece in reversed(pieces):
        if count and len(piece.removeprefix("##")) > 1 and piece not in SPECIAL_TOKENS:
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
    case = "" if config.do_lower_case else " --no-lower-case"
    accents = "" if config.strip_accents else " --no-strip-accents"
    print_fn(
        f"{vocabulary.size:,} entries in {format_seconds(seconds)}: "
        f"{num_pieces / num_words:.2f} pieces per word, {num_unknown / num_words:.3%} of the "
        "words unknown.\n"
        f"Vocabulary: {config.output_file}\n"
        "Next:       python build_pretraining_dataset.py "
        f"--corpus-dir {shlex.quote(str(config.corpus_dir))} "
        f"--vocab-file {shlex.quote(str(config.output_file))} "
        f"--output-dir {shlex.quote(str(config.output_file.parent / 'pretrain_tfrecords'))}"
        f"{case}{accents}"
    )
