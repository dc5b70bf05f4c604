"""Trains a WordPiece vocabulary on words, as this project's tokenizer splits text."""

import glob
import hashlib
import pathlib
import re
import shlex
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from electra_tf.text.tokenizer import MAX_CODE_POINTS_PER_WORD
from electra_tf.text.tokenizer_description import (
    MAX_UNKNOWN,
    TokenizerDescription,
    description_file,
    load_tokenizer_description,
)
from electra_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, load_vocabulary
from electra_tf.util.console import format_seconds, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import to_json, write_in_order
from electra_tf.util.output_checks import check_output_file
from pretrain_data.corpus.corpus_report import print_left_out
from pretrain_data.corpus.file_search import identity_of
from pretrain_data.corpus.formats import FormatOptions
from pretrain_data.corpus.inputs import Corpus, find_inputs, find_text, warn_of_unused_names
from pretrain_data.vocabulary.config import MIN_VOCAB_SIZE, VocabularyBuildConfig
from pretrain_data.vocabulary.vocabulary_report import measure, print_report
from pretrain_data.vocabulary.word_counts import count_words
from pretrain_data.vocabulary.word_pieces import learn_pieces, sentencepiece

OUTPUT_FLAG = "--output-file"
REPORT_FLAG = "--report"
# Minimum fraction of words that are damaged by stripping accents, or spelled in two ways, for a
# warning.
_WARNED_SHARE = 0.01
# Scripts that stripping accents damages: their name, their characters, and the damage.
_DAMAGED_SCRIPTS = (
    ("Korean", "\u1100-\u11ff", "decomposes their syllables"),
    ("Japanese", "\u3041-\u30fa", "removes voicing marks, so \u304c becomes \u304b"),
    ("Thai or Lao", "\u0e00-\u0eff", "removes vowels and tones"),
    ("of Indic scripts", "\u0900-\u0dff", "removes vowel signs"),
    ("Tibetan, Burmese or Khmer", "\u0f00-\u109f\u1780-\u17ff", "removes vowel signs"),
)


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
            f"--vocab-size must be at least {MIN_VOCAB_SIZE}, not {config.vocab_size}"
        )
    _check_output_file(config)
    sentencepiece()
    vocabularies = [config.output_file, *filter(None, [config.compare_with])]
    corpus = find_text(
        config.corpus_dir,
        config.inputs,
        text_field=config.text_field,
        text_column=config.text_column,
        vocabularies=vocabularies,
    )
    print_left_out(corpus, config.corpus_dir, print_fn)
    held_out = _find_held_out(config, corpus, vocabularies)
    parts = [*corpus.parts, *(held_out.parts if held_out else ())]
    warn_of_unused_names(parts, config.text_field, config.text_column)
    second = None
    if config.compare_with is not None:
        second = load_vocabulary(config.compare_with, "--compare_with")
    held_out_counts = _count_held_out(config, second, held_out, print_fn)
    word_counts = count_words(
        corpus, config.do_lower_case, config.strip_accents, print_fn, config.num_processes
    )
    if not word_counts:
        raise UserError(f"The corpus in {config.corpus_name} contains no words")
    print_fn(f"{sum(word_counts.values()):,} words, {len(word_counts):,} of them distinct.")
    _warn_of_lost_letters(config, word_counts)
    _warn_of_two_spellings(word_counts)
    pieces = learn_pieces(
        word_counts, config.vocab_size, print_fn, character_coverage=config.character_coverage
    )
    _write_vocabulary(config, pieces)
    vocabulary = load_vocabulary(config.output_file, OUTPUT_FLAG)
    _print_result(config, vocabulary, word_counts, time.monotonic() - start, print_fn)
    if held_out_counts:
        vocabularies = [vocabulary, *([second] if second else [])]
        print_report(list(map(measure, vocabularies, held_out_counts)), print_fn)
    return vocabulary


def _write_vocabulary(config: VocabularyBuildConfig, pieces: Sequence[str]) -> None:
    """Writes the description of the tokenizer, then the vocabulary.

    A vocabulary without its description could be used with other settings.

    Raises:
        UserError: a file cannot be written.
    """
    content = ("\n".join(pieces) + "\n").encode()
    description = TokenizerDescription(
        vocab_sha256=hashlib.sha256(content).hexdigest(),
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )
    try:
        write_in_order(
            {
                str(description_file(config.output_file)): to_json(description.to_dict()),
                str(config.output_file): content,
            }
        )
    except OSError as error:
        raise UserError(
            f"Vocabulary file {config.output_file} ({OUTPUT_FLAG}) cannot be written: "
            f"{error.strerror}"
        ) from error


def _find_held_out(
    config: VocabularyBuildConfig, corpus: Corpus, vocabularies: Sequence[pathlib.Path]
) -> Corpus | None:
    """Returns the held-out text to report on; raises UserError if it is part of the corpus."""
    if not config.report:
        return None
    options = FormatOptions(REPORT_FLAG, config.text_field, config.text_column)
    held_out = find_inputs(config.report, options, vocabularies=vocabularies)
    trained_on = {identity_of(part.path) for part in corpus.parts}
    for part in held_out.parts:
        if identity_of(part.path) in trained_on:
            raise UserError(
                f"{part.path} ({REPORT_FLAG}) is part of the text to train on: pass files that "
                "are not"
            )
    return held_out


def _count_held_out(
    config: VocabularyBuildConfig,
    second: Vocabulary | None,
    held_out: Corpus | None,
    print_fn: Callable[[str], None],
) -> list[Mapping[str, int]]:
    """Returns the words of the held-out text for each vocabulary, with its own settings.

    Raises:
        UserError: there are no words, or the text cannot be read.
    """
    if held_out is None:
        return []
    counts: dict[tuple[bool, bool], Mapping[str, int]] = {}
    settings_of_each = []
    for vocabulary in (None, second) if second else (None,):
        described = load_tokenizer_description(vocabulary.path) if vocabulary else None
        given = described or config
        settings = (given.do_lower_case, given.strip_accents)
        settings_of_each.append(settings)
        if settings not in counts:
            counts[settings] = count_words(held_out, *settings, print_fn, config.num_processes)
        if not counts[settings]:
            raise UserError(f"{', '.join(config.report)} ({REPORT_FLAG}) contains no words")
    return [counts[settings] for settings in settings_of_each]


def _warn_of_lost_letters(
    config: VocabularyBuildConfig, word_counts: Mapping[str, int]
) -> None:
    """Warns if stripping accents removes or decomposes letters of a script."""
    if not (config.do_lower_case and config.strip_accents):
        return
    num_words = sum(word_counts.values())
    for name, characters, effect in _DAMAGED_SCRIPTS:
        is_damaged = re.compile(f"[{characters}]").search
        share = sum(n for word, n in word_counts.items() if is_damaged(word)) / num_words
        if share >= _WARNED_SHARE:
            warn_once(
                f"{share:.0%} of the words are {name}, and stripping accents {effect}: pass "
                "--no-strip-accents"
            )


def _warn_of_two_spellings(word_counts: Mapping[str, int]) -> None:
    """Warns of words that occur in both composed and decomposed characters (NFC and NFD).

    The two have different tokens. Stripping accents avoids this, since it decomposes all words.
    """
    num_twice = 0
    for word, count in word_counts.items():
        composed = unicodedata.normalize("NFC", word)
        if composed != word:
            num_twice += min(count, word_counts.get(composed, 0))
    share = 2 * num_twice / sum(word_counts.values())
    if share >= _WARNED_SHARE:
        warn_once(
            f"{share:.0%} of the words are written in two ways, with composed and with "
            "decomposed characters, and get different tokens: convert all text of the model to "
            "NFC, for instance with uconv -x any-nfc"
        )


def _check_output_file(config: VocabularyBuildConfig) -> None:
    where = f"Vocabulary file {config.output_file} ({OUTPUT_FLAG})"
    if config.output_file.is_dir():
        raise UserError(f"{where} is a folder; pass the path of a file")
    if config.output_file.exists() and not config.overwrite:
        raise UserError(
            f"{where} exists. Pass another path, or --overwrite to replace it. Records and "
            "models built with it depend on it"
        )
    check_output_file(config.output_file, OUTPUT_FLAG)
    if config.output_file.exists() and not _is_vocabulary(config.output_file):
        raise UserError(f"{where} is not a vocabulary: pass another path")
    if other := _other_described(config.output_file):
        raise UserError(
            f"{where} would have the same description as {other}, "
            f"{description_file(other)}, which would be replaced: pass another path"
        )


def _other_described(vocab_file: pathlib.Path) -> pathlib.Path | None:
    """Returns another vocabulary that the description file of this one describes, if any."""
    description = description_file(vocab_file)
    if _describes(vocab_file):
        return None
    others = set(vocab_file.parent.glob(f"{glob.escape(vocab_file.stem)}*"))
    for path in sorted(others - {vocab_file, description}):
        if description_file(path) == description and _describes(path):
            return path
    return None


def _describes(vocab_file: pathlib.Path) -> bool:
    """Whether the description beside a vocabulary exists, is intact, and describes it."""
    try:
        return vocab_file.is_file() and load_tokenizer_description(vocab_file) is not None
    except UserError:
        return False


def _is_vocabulary(path: pathlib.Path) -> bool:
    """Whether a file is empty, or has a line for each special token."""
    lines = path.read_bytes().splitlines()
    return not lines or {token.encode() for token in SPECIAL_TOKENS} <= set(lines)


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
    coverage = measure(vocabulary, word_counts)
    if coverage.unknown_text > MAX_UNKNOWN:
        num_long = sum(n for w, n in word_counts.items() if len(w) > MAX_CODE_POINTS_PER_WORD)
        warn_once(
            f"{coverage.unknown_text:.1%} of the text is in words that become [UNK], because "
            f"they have a rare character, or (in {num_long:,} cases) more than "
            f"{MAX_CODE_POINTS_PER_WORD} characters: pass a higher --character_coverage or "
            "--vocab-size, and put spaces between the words of scripts without"
        )
    print_fn(
        f"{vocabulary.size:,} entries in {format_seconds(seconds)}: "
        f"{coverage.num_pieces / coverage.num_words:.2f} pieces per word, "
        f"{coverage.num_unknown / coverage.num_words:.3%} of the words unknown, "
        f"which are {coverage.unknown_text:.3%} of the text.\n"
        f"Vocabulary: {config.output_file}\n"
        f"Tokenizer:  {description_file(config.output_file)}\n"
        "Next:       python build_pretraining_dataset.py "
        f"{_corpus_flags(config)} "
        f"--vocab-file {shlex.quote(str(config.output_file))} "
        f"--output-dir {shlex.quote(str(config.output_file.parent / 'pretrain_tfrecords'))}"
    )
