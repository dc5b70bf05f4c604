"""The table of words finds every word by all of its bytes, whatever shares its slot."""

import random

import numpy as np
import pytest

from electra_tf.text import word_table
from electra_tf.text.word_table import WordTable


def tokenize(words):
    """One id per byte, and one more for the length, so that all words differ."""
    rows = [ids_of(word) for word in words]
    splits = np.cumsum([0, *map(len, rows)])
    return np.array([i for row in rows for i in row], np.int32), splits


def ids_of(word: bytes) -> list[int]:
    return [*word, 1000 + len(word)]


def rows_of(table: WordTable, text: bytes) -> list[list[int]]:
    ids, counts = table.look_up(text, tokenize)
    return [row.tolist() for row in np.split(ids, np.cumsum(counts)[:-1])]


@pytest.mark.parametrize("bits", [64, 2, 0])
def test_words_of_every_length_with_few_or_many_shared_slots(bits, monkeypatch):
    # With few bits of the hash, nearly all words share a slot.
    hashes = word_table._Keys.hashes
    mask = np.uint64((1 << 64) - (1 << (64 - bits)))
    monkeypatch.setattr(word_table._Keys, "hashes", lambda keys: hashes(keys) & mask)
    source = random.Random(bits)
    letters = b"ab\0\xe2\x80\x99\xff"
    words = [bytes(source.choices(letters, k=source.randrange(40))) for _ in range(1500)]
    # Words that differ in one byte, at each place, and by bytes of zero at their end.
    words += [b"a" * n + b"b" + b"a" * (20 - n) for n in range(21)]
    words += [b"word" + bytes(n) for n in range(20)] + [b"", b"a" * 8, b"a" * 16, b"a" * 17]
    table = WordTable()
    for _ in range(4):
        source.shuffle(words)
        text = b" ".join(words)
        assert rows_of(table, text) == [ids_of(word) for word in words]
    assert len(table) == len(set(words))
    assert table.num_bytes == sum(map(len, set(words)))


def test_spaces_alone_and_no_text():
    table = WordTable()
    assert rows_of(table, b"") == [ids_of(b"")]
    assert rows_of(table, b"  a  ") == [ids_of(w) for w in (b"", b"", b"a", b"", b"")]
    assert len(table) == 2


def test_an_error_leaves_the_table_as_it_was():
    table = WordTable()
    rows_of(table, b"one two")

    def fail(words):
        assert words == [b"three"]
        raise MemoryError

    with pytest.raises(MemoryError):
        table.look_up(b"one three three", fail)
    assert len(table) == 2
    assert rows_of(table, b"three one") == [ids_of(b"three"), ids_of(b"one")]
