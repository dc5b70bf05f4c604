"""Trains a WordPiece vocabulary on files of text.

Words are split by the project's tokenizer. TensorFlow Text's learner returns the pieces
above a frequency threshold; the threshold is searched for to reach the requested size.
"""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping

import tensorflow as tf

from electra_tf.text.description import (
    TokenizerDescription,
    description_file,
    write_tokenizer_description,
)
from electra_tf.text.tokenizer import Tokenizer, split_words
from electra_tf.text.vocabulary import (
    MIN_VOCAB_SIZE,
    Vocabulary,
    VocabularyBuildConfig,
    load_vocabulary,
)
from electra_tf.util.console import ProgressBar, discard, format_seconds
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from pretrain_data.build.report import print_nulls, print_what_is_left_out
from pretrain_data.build.word_pieces import learn_pieces
from pretrain_data.corpus.inputs import Corpus, find_text

OUTPUT_FLAG = "--output-file"
# A Korean share of words from which stripping accents is worth a warning.
_WARNED_KOREAN_SHARE = 0.01
_FIRST_JAMO, _LAST_JAMO = "\u1100", "\u11ff"


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
    corpus = find_text(
        config.corpus_dir,
        config.inputs,
        text_field=config.text_field,
        text_column=config.text_column,
    )
    if config.inputs:
        print_what_is_left_out(corpus, None, print_fn)
    word_counts = count_words(corpus, config.do_lower_case, config.strip_accents, print_fn)
    if not word_counts:
        raise UserError(f"The corpus in {config.corpus_name} contains no words.")
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


def count_words(
    corpus: Corpus,
    do_lower_case: bool,
    strip_accents: bool,
    print_fn: Callable[[str], None] = discard,
) -> Counter[str]:
    """Counts the words of all files, as split by the tokenizer; prints what has no text."""
    word_counts: Counter[str] = Counter()
    null_texts: Counter[str] = Counter()
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
            if block.num_nulls:
                null_texts[block.path] += block.num_nulls
            num_disk_bytes += block.num_disk_bytes
            num_text_bytes += block.num_text_bytes
            progress.update(num_disk_bytes, num_text_bytes, len(word_counts))
    progress.close()
    print_nulls(null_texts, print_fn)
    return word_counts


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


def _check_output_file(config: VocabularyBuildConfig) -> None:
    where = f"Vocabulary file {config.output_file} ({OUTPUT_FLAG})"
    if config.output_file.is_dir():
        raise UserError(f"{where} is a directory; pass the path of a file.")
    if config.output_file.exists() and not config.overwrite:
        raise UserError(
            f"{where} exists. Pass another path, or --overwrite to replace it. Records and "
            "models built with it depend on it."
        )


def _corpus_flags(config: VocabularyBuildConfig) -> str:
    """Returns the flags that read the same corpus."""
    if config.corpus_dir is not None:
        return f"--corpus-dir {shlex.quote(str(config.corpus_dir))}"
    flags = f"--input {shlex.quote(','.join(config.inputs))}"
    for name in ("text_field", "text_column"):
        if (value := getattr(config, name)) != "text":
            flags += f" --{name} {shlex.quote(value)}"
    return flags


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
        f"{_corpus_flags(config)} "
        f"--vocab-file {shlex.quote(str(config.output_file))} "
        f"--output-dir {shlex.quote(str(config.output_file.parent / 'pretrain_tfrecords'))}"
    )
