"""Tests of the training of vocabularies."""

import contextlib
import dataclasses
import gzip
import itertools
import pathlib
import pickle
import re
import shlex
import shutil
import sys
import types
import unicodedata
from collections import Counter

import pytest
import tensorflow as tf
from absl import flags as absl_flags

from electra_tf.text import tokenizer
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.tokenizer_description import (
    description_file,
    load_tokenizer_description,
)
from electra_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, load_vocabulary
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from flags import corpus
from flags.command_line import parsing
from pretrain_data.build.dataset import build_pretraining_data
from pretrain_data.corpus import blocks
from pretrain_data.corpus.inputs import find_corpus, find_inputs
from pretrain_data.corpus.partition import divide
from pretrain_data.parallel.counts import WorkerError
from pretrain_data.vocabulary import word_counts
from pretrain_data.vocabulary.config import VocabularyBuildConfig
from pretrain_data.vocabulary.vocabulary_builder import _corpus_flags, build_vocabulary
from pretrain_data.vocabulary.vocabulary_report import measure
from pretrain_data.vocabulary.word_counts import CountJob, count_words, count_words_of
from pretrain_data.vocabulary.word_pieces import choose_characters, learn_pieces

NO_MESSAGES = {"print_fn": lambda message: None}
# Ninety stems with five endings each, so that pieces pay.
WORD_COUNTS = {
    f"{first}{vowel}{last}{ending}": 5 + (7 * i + 11 * j) % 13
    for i, (first, vowel, last) in enumerate(itertools.product("wjpscl", "aeiou", "kmt"))
    for j, ending in enumerate(("", "s", "ed", "ing", "er"))
}


@pytest.fixture
def text_dir(tmp_path) -> pathlib.Path:
    directory = tmp_path / "text"
    (directory / "below").mkdir(parents=True)
    text = "\n".join(f"{word} " * count for word, count in WORD_COUNTS.items())
    (directory / "a.txt").write_text("The Caf\u00e9, the caf\u00e9.\n\n" + text)
    with gzip.open(directory / "below/b.txt.gz", "wt", encoding="utf-8") as f:
        f.write("\ud55c\uad6d \ub9d0 \ud55c\uad6d\uc5b4\n")
    return directory


def test_a_crash_while_counting_names_the_file(text_dir, monkeypatch):
    def fail(*_):
        raise IndexError("boom")

    monkeypatch.setattr(word_counts._WordCounter, "add", fail)
    job = CountJob(0, find_corpus(text_dir).parts, True, True)
    message = rf"Counting failed in {text_dir}/a\.txt: IndexError\('boom'\)"
    with pytest.raises(WorkerError, match=message):
        count_words_of(job, lambda counts: None)


def build(text_dir: pathlib.Path, name: str = "vocab.txt", **settings) -> Vocabulary:
    settings = {"vocab_size": 200, **settings}
    output_file = text_dir.parent / "out" / name
    config = VocabularyBuildConfig(text_dir, output_file, **settings)
    return build_vocabulary(config, **NO_MESSAGES)


def test_words_are_those_of_the_tokenizer(text_dir):
    corpus = find_corpus(text_dir)
    stripped = count_words(corpus, do_lower_case=True, strip_accents=True)
    assert {w: n for w, n in stripped.items() if w in ("the", "cafe", ",", ".")} == {
        **{"the": 2, "cafe": 2, ",": 1, ".": 1}
    }
    assert {w: n for w, n in stripped.items() if w in WORD_COUNTS} == WORD_COUNTS
    # Decomposed syllables: three letters each.
    assert stripped["\u1112\u1161\u11ab\u1100\u116e\u11a8"] == 1
    cased = count_words(corpus, do_lower_case=False, strip_accents=False)
    assert (cased["The"], cased["the"], cased["Caf\u00e9"], cased["\ud55c\uad6d"]) == (1,) * 4


@pytest.mark.parametrize("vocab_size", [130, 131, 300])
def test_the_size_is_exact_and_frequent_pieces_are_found(vocab_size):
    pieces = learn_pieces(WORD_COUNTS, vocab_size, **NO_MESSAGES)
    assert pieces[:5] == SPECIAL_TOKENS
    assert len(set(pieces)) == len(pieces) == vocab_size
    assert {"##s", "##ed", "##ing", "##er"} <= set(pieces)
    # Every letter, alone and as a continuation.
    letters = set("".join(WORD_COUNTS))
    assert letters | {f"##{letter}" for letter in letters} <= set(pieces)


def test_only_frequent_characters_are_in_a_small_vocabulary(text_dir):
    vocabulary = build(text_dir, vocab_size=90, strip_accents=False)
    texts = ["spingloc", "\ub9d0"]
    spelled, unknown = Tokenizer(vocabulary, strip_accents=False).tokenize(texts).to_list()
    assert vocabulary.unk_id not in spelled
    assert unknown == [vocabulary.unk_id]


def test_syllables_and_ideographs_are_all_covered_by_32k():
    syllables = [chr(c) for c in range(0xAC00, 0xD7A4)]
    korean = {first + second: 2 for first, second in itertools.pairwise(syllables)}
    ideographs = {chr(c): 1 for c in range(0x4E00, 0xA000)}
    for words in (korean, ideographs):
        characters = choose_characters(words, 32_000)
        assert len(characters.chosen) == characters.num_distinct == len(set("".join(words)))
        assert characters.coverage == 1.0
    # Half of a small vocabulary is left to longer pieces.
    assert len(choose_characters(korean, 8005).chosen) == 2000
    assert len(choose_characters(ideographs, 8005).chosen) == 4000


def test_the_share_of_characters_is_a_flag(text_dir):
    words = {"a": 90, "b": 9, "c": 1}
    assert choose_characters(words, 100, 0.9).chosen == ("a",)
    assert choose_characters(words, 100, 0.95).chosen == ("a", "b")
    assert choose_characters(words, 100, 1.0).chosen == ("a", "b", "c")
    with pytest.raises(UserError, match=r"--character_coverage=1 takes 3 .*--vocab-size=8 or"):
        choose_characters(words, 7, 1.0)
    assert choose_characters(words, 8, 1.0).coverage == 1.0
    full = build(text_dir, vocab_size=90, strip_accents=False, character_coverage=1.0)
    assert {"\ud55c", "##\uad6d", "##\uc5b4", "\ub9d0"} <= set(full.tokens)
    # A character that is always a word of its own does not continue any.
    assert "," in full.tokens
    assert "##," not in full.tokens


def test_advice_can_be_followed(tmp_path):
    syllables = [chr(0xAC00 + 37 * i) for i in range(300)]
    directory = tmp_path / "text"
    directory.mkdir()
    words = ["".join(pair) for pair in itertools.pairwise(syllables)]
    (directory / "a.txt").write_text(" ".join(words) + " the sea and the people\n" * 3)
    size, settings = 9000, {"strip_accents": False}
    with pytest.raises(UserError, match=r"--vocab-size=\d+ or less") as error:
        build(directory, vocab_size=size, **settings)
    size = int(re.search(r"--vocab-size=(\d+)", str(error.value))[1])
    for smaller in (size, size - 1, size // 2, 33):
        vocabulary = build(directory, f"{smaller}.txt", vocab_size=smaller, **settings)
        assert vocabulary.size == smaller


def test_long_runs_without_spaces_are_learned(tmp_path):
    directory = tmp_path / "text"
    directory.mkdir()
    thai = "\u0e01\u0e32\u0e23\u0e40\u0e14\u0e34\u0e19\u0e17\u0e32\u0e07"
    (directory / "a.txt").write_text(f"{thai * 12} the big sea and people\n" * 9)
    vocabulary = build(directory, vocab_size=56, character_coverage=1.0, strip_accents=False)
    (ids,) = Tokenizer(vocabulary, strip_accents=False).tokenize([thai * 12]).to_list()
    assert vocabulary.unk_id not in ids


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4", "Korean"),
        ("\u304c\u3093\u3070\u3063\u3066 \u30d1\u30f3", "Japanese"),
        ("\u0e01\u0e34\u0e19 \u0e19\u0e49\u0e33", "Thai or Lao"),
        ("\u0915\u0941\u091b \u0932\u094b\u0917", "of Indic scripts"),
        ("\u1781\u17d2\u1789\u17bb\u17c6", "Tibetan, Burmese or Khmer"),
    ],
)
def test_letters_that_stripping_accents_would_damage_are_named(text_dir, text, script, capsys):
    (text_dir / "a.txt").write_text(f"{text}\n" * 40, encoding="utf-8")
    for strip_accents in (True, False):
        warn_once.cache_clear()
        config = VocabularyBuildConfig(
            text_dir, text_dir.parent / "v.txt", 32, strip_accents=strip_accents, overwrite=True
        )
        with contextlib.suppress(UserError):  # so little text has few pieces
            build_vocabulary(config, discard)
        # A warning, which --quiet leaves.
        warned = [
            line.startswith("warning: ") and f"words are {script}, and" in line
            for line in capsys.readouterr().err.splitlines()
            if line.endswith("pass --no-strip-accents")
        ]
        assert any(warned) == strip_accents


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ({"strip_accents": False}, True),
        ({"do_lower_case": False}, True),
        ({}, False),  # both become the same
    ],
)
def test_words_in_composed_and_decomposed_characters_are_told(
    text_dir, settings, warns, capsys
):
    composed = "\u00e9t\u00e9 \ud55c\uad6d \u3067"
    decomposed = unicodedata.normalize("NFD", composed)
    mixed = f"{composed} {decomposed}"
    for text in (mixed, composed, decomposed):
        (text_dir / "b.txt").write_text(f"{text}\n" * 40, encoding="utf-8")
        warn_once.cache_clear()
        config = VocabularyBuildConfig(
            text_dir, text_dir.parent / "v.txt", 60, overwrite=True, **settings
        )
        build_vocabulary(config, discard)
        warned = "of the words are written in two ways" in capsys.readouterr().err
        assert warned == (warns and text is mixed)


def test_same_text_gives_the_same_file_whatever_the_order(text_dir):
    first = build(text_dir)
    (text_dir / "a.txt").rename(text_dir / "z.txt")
    second = build(text_dir, "second.txt")
    assert first.sha256 == second.sha256
    assert load_vocabulary(first.path).tokens == first.tokens
    assert sorted(p.name for p in first.path.parent.iterdir()) == [
        "second.tokenizer.json",
        "second.txt",
        "vocab.tokenizer.json",
        "vocab.txt",
    ]


def test_an_existing_file_is_replaced_only_when_told(text_dir):
    first = build(text_dir)
    with pytest.raises(UserError, match=r"vocab\.txt \(--output-file\) exists.*--overwrite"):
        build(text_dir, vocab_size=150)
    assert load_vocabulary(first.path).sha256 == first.sha256
    assert build(text_dir, vocab_size=150, overwrite=True).size == 150


def test_the_description_of_another_vocabulary_is_not_replaced(text_dir):
    first = build(text_dir, str(text_dir.parent / "vocab.a"))
    described = description_file(first.path)
    before = described.read_bytes()
    with pytest.raises(UserError, match=r"vocab\.b .*same description as .*vocab\.a, "):
        build(text_dir, str(text_dir.parent / "vocab.b"), vocab_size=150)
    assert described.read_bytes() == before
    # A copy of the vocabulary that is replaced does not keep it.
    shutil.copy(first.path, text_dir.parent / "vocab.copy")
    build(text_dir, str(text_dir.parent / "vocab.a"), vocab_size=150, overwrite=True)


def test_text_is_not_replaced_by_its_vocabulary(text_dir):
    text = next(path for path in text_dir.iterdir() if path.is_file())
    before = text.read_bytes()
    with pytest.raises(UserError, match="is not a vocabulary: pass another path"):
        build(text_dir, str(text), overwrite=True)
    assert text.read_bytes() == before


def test_the_vocabulary_that_is_replaced_is_not_learned_from(text_dir):
    name = str(text_dir / "vocab.txt")
    first = build(text_dir, name)
    second = build(text_dir, name, overwrite=True)
    assert first.sha256 == second.sha256


def test_bad_settings_are_refused_before_anything_is_written(text_dir):
    with pytest.raises(UserError, match=r"only \d+ distinct pieces.*--vocab-size=\d+ or less"):
        build(text_dir, vocab_size=5000)
    with pytest.raises(UserError, match="--vocab-size must be at least 32, not 8"):
        build(text_dir, vocab_size=8)
    (text_dir / "a.txt").write_text("\n \n")
    (text_dir / "below/b.txt.gz").unlink()
    with pytest.raises(UserError, match="contains no words"):
        build(text_dir)
    assert not (text_dir.parent / "out").exists()
    with pytest.raises(UserError, match=r"\(--output-file\) is a folder"):
        build(text_dir, name=str(text_dir))
    with pytest.raises(
        UserError, match=r"--output-file=.* cannot be written: .*Not a directory"
    ):
        build(text_dir, name=str(text_dir / "a.txt/vocab.txt"))


def test_the_messages_name_the_next_command(text_dir):
    messages = []
    output_file = text_dir.parent / "my vocab.txt"
    config = VocabularyBuildConfig(text_dir, output_file, vocab_size=200, strip_accents=False)
    build_vocabulary(config, messages.append)
    assert "200 entries in" in messages[-1]
    assert f"--vocab-file '{output_file}'" in messages[-1]
    description = load_tokenizer_description(output_file)
    assert description.do_lower_case
    assert not description.strip_accents
    # The next command reads it.
    flag_values = absl_flags.FlagValues()
    corpus.define_corpus_flags(flag_values)
    command = shlex.split(messages[-1].partition("Next:")[2])
    parsing.parse(command[1:], corpus.ALIASES, flag_values)
    config = corpus.corpus_build_config(flag_values)
    assert (config.corpus_dir, config.vocab_file) == (text_dir, output_file)
    manifest = build_pretraining_data(config, print_fn=lambda message: None)
    assert manifest.tokenizer_description == description


def test_words_of_json_lines_are_counted_like_those_of_text(tmp_path):
    (tmp_path / "a.txt").write_text("one two\nthree two\n")
    (tmp_path / "a.jsonl").write_text('{"text": "one two\\nthree two"}\n')
    counts = [
        count_words(find_inputs([str(tmp_path / name)]), True, True)
        for name in ("a.txt", "a.jsonl")
    ]
    assert counts[0] == counts[1] == {"one": 1, "two": 2, "three": 1}


def test_what_is_left_out_or_repaired_is_told(text_dir):
    (text_dir / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (text_dir / "empty.txt").touch()
    (text_dir / "notes.md").write_text("text")
    messages = []
    config = VocabularyBuildConfig(
        corpus_dir=text_dir,
        output_file=text_dir.parent / "told.txt",
        vocab_size=300,
        report=(str(text_dir / "latin.txt"),),
    )
    with pytest.raises(UserError, match="part of the text to train on"):
        build_vocabulary(config, messages.append)
    assert any("Ignored 1 files" in m and m.endswith("notes.md") for m in messages)
    assert "1 empty files: empty.txt" in messages
    held_out = text_dir.parent / "held_out.txt"
    (text_dir / "latin.txt").rename(held_out)
    config = dataclasses.replace(config, report=(str(held_out),))
    build_vocabulary(config, messages.append)
    assert f"{held_out}: 1 invalid UTF-8 sequences were replaced with U+FFFD." in messages
    messages.clear()
    count_words(find_inputs([str(held_out)]), True, True, messages.append)
    assert f"{held_out}: 1 invalid UTF-8 sequences were replaced with U+FFFD." in messages


def test_a_damaged_file_is_refused_without_a_flag_that_only_records_have(text_dir):
    (text_dir / "c.txt.gz").write_bytes(gzip.compress(b"text", mtime=0)[:-1])
    with pytest.raises(
        UserError, match=r"c\.txt\.gz .* Repair or remove it; the programs that"
    ):
        build(text_dir)


def test_counts_do_not_depend_on_processes_and_blocks(text_dir, monkeypatch):
    found = find_corpus(text_dir)
    whole = count_words(found, True, True)
    jobs = [
        CountJob(i, share, True, True) for i, share in enumerate(divide(found.parts, 2, True))
    ]
    assert len(jobs) == 2
    # As between processes.
    jobs = pickle.loads(pickle.dumps(jobs))
    shares = [count_words_of(job, lambda counts: None) for job in jobs]
    shares = pickle.loads(pickle.dumps(shares))
    assert sum((share.words for share in shares), Counter()) == whole
    # However often the parts are split into words.
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr(word_counts, "_MAX_PARTS", 20)
    monkeypatch.setattr(word_counts, "_PARTS_AT_ONCE", 7)
    assert count_words(found, True, True) == whole


def test_long_words_are_split_a_few_at_a_time(tmp_path, monkeypatch):
    """Thirty megabytes without a space took more than two gigabytes."""
    sizes = []
    split_words = tokenizer.split_words

    def measured(texts, *settings):
        sizes.append(int(tf.reduce_sum(tf.strings.length(texts))))
        return split_words(texts, *settings)

    monkeypatch.setattr(tokenizer, "split_words", measured)
    (tmp_path / "a.txt").write_text("".join(f"{i:x}" for i in range(1_000_000)) + "\n")
    words = count_words(find_corpus(tmp_path), True, True)
    assert sum(sizes) == sum(map(len, words)) > 4_800_000
    assert max(sizes) <= 2 << 20
    assert len(sizes) >= 3


def test_text_that_becomes_unknown_is_warned_of(text_dir, capsys):
    """Without spaces between words, few of them may be most of the text."""
    warn_once.cache_clear()
    word = "\u0e01\u0e32" * 150
    (text_dir / "thai.txt").write_text(f"{word}\n" * 60, encoding="utf-8")
    build_vocabulary(VocabularyBuildConfig(text_dir, text_dir.parent / "v.txt", 200), discard)
    warnings = capsys.readouterr().err.splitlines()
    (warning,) = [w for w in warnings if "of the text is in words that become" in w]
    assert "(in 60 cases) more than 200 characters: pass" in warning


def test_pieces_are_learned_from_counts_of_any_characters():
    words = {"lowest": 1 << 33, "newest": 1 << 33, "a\u2581b": 9, "\u2585c": 9, "x": 1, "yx": 1}
    pieces = learn_pieces(words, 44, character_coverage=1.0, **NO_MESSAGES)
    assert {"\u2581", "\u2585", "##\u2581", "x", "##x"} <= set(pieces)
    assert {"##est", "lowest", "newest"} <= set(pieces)
    # Most frequent first: the letter in both words, twice in one; then the pairs.
    assert pieces[5] == "e"
    assert pieces.index("##est") < pieces.index("lowest")


def test_the_missing_package_is_named_before_the_corpus_is_read(text_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"needs sentencepiece.*electra-tf\[corpus\]"):
        build(text_dir / "none")


def test_report_on_held_out_text_beside_a_second_vocabulary(text_dir):
    held_out = text_dir.parent / "held_out.txt"
    held_out.write_text("wats wated Wats zzz \u4e2d, the\n")
    second = build(text_dir, "cased.txt", vocab_size=150, do_lower_case=False)
    messages = []
    output_file = text_dir.parent / "vocab.txt"
    config = VocabularyBuildConfig(
        text_dir, output_file, 200, report=(str(held_out),), compare_with=second.path
    )
    build_vocabulary(config, messages.append)
    table, first_pieces, second_pieces = messages[-3:]
    rows = {row.split("|")[1].strip(): row.split("|")[2:-1] for row in table.split("\n")}
    assert [value.strip() for value in rows["held-out text"]] == [
        str(output_file),
        str(second.path),
    ]
    assert [value.strip() for value in rows["entries"]] == ["200", "150"]
    assert [value.strip() for value in rows["words"]] == ["7", "7"]
    # "zzz" and the ideograph; the second vocabulary has no capitals, either.
    assert [value.strip() for value in rows["unknown words"]] == ["28.571%", "42.857%"]
    assert [value.strip() for value in rows["text in unknown words"]] == ["19.048%", "38.095%"]
    assert first_pieces.startswith(f"{output_file}\n  longest pieces: ")
    assert second_pieces.startswith(str(second.path))
    coverage = measure(load_vocabulary(output_file), {"wats": 2, "the": 1, "zzz": 4})
    assert coverage.num_words == 7
    assert coverage.num_unknown == 4
    assert coverage.unknown_text == 12 / 23
    assert coverage.piece_counts.sum() == coverage.num_pieces
    assert "wats".startswith(coverage.longest()[0].removeprefix("##")[:1])
    assert coverage.rarest()[0] in ("the", "t", "##he", "##h", "##e", "th")


def test_a_report_on_text_without_words_is_refused(text_dir, tmp_path):
    empty = tmp_path / "blank.txt"
    empty.write_text(" \n\n")
    with pytest.raises(UserError, match=rf"{empty} \(--report\) contains no words"):
        build(text_dir, report=(str(empty),))
    # Before anything was trained or written.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blank.txt", "text"]


def test_bad_reports_are_refused_before_training(text_dir):
    inside = (str(text_dir / "a.txt"),)
    with pytest.raises(UserError, match=r"a\.txt \(--report\) is part of the text to train on"):
        build(text_dir, report=inside)
    with pytest.raises(UserError, match=r"--report: none\.txt does not exist"):
        build(text_dir, report=("none.txt",))
    with pytest.raises(UserError, match=r"none\.txt \(--compare_with\) does not exist"):
        build(text_dir, compare_with=pathlib.Path("none.txt"))
    assert not (text_dir.parent / "out").exists()


def test_the_next_command_reads_the_same_corpus(tmp_path):
    flags = _corpus_flags(types.SimpleNamespace(corpus_dir=tmp_path / "my corpus"))
    assert flags == f"--corpus-dir '{tmp_path}/my corpus'"
    given = {"corpus_dir": None, "inputs": ("a.jsonl", "b c"), "text_field": "body"}
    flags = _corpus_flags(types.SimpleNamespace(**given, text_column="text"))
    assert flags == "--input 'a.jsonl,b c' --text_field body"
