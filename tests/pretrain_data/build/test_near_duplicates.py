"""Tests of finding documents that are nearly the same."""

import random

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from pretrain_data.build import near_duplicates
from pretrain_data.build.near_duplicates import (
    DocumentSigner,
    check_near_duplicates,
    choose_bands,
    find_near_duplicates,
)

pytest.importorskip("datasketch", reason="needs electra-tf[corpus]")


def signature(*lines, num_words=3, num_permutations=256):
    signer = DocumentSigner(num_words, num_permutations)
    for line in lines:
        signer.add_line(line)
    return signer.end_document()


def shingles(words, length=3):
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_signatures_estimate_the_similarity_of_sets_of_shingles():
    rng = random.Random(0)
    first = [f"w{rng.randrange(500)}" for _ in range(9000)]
    second = list(first)
    for _ in range(300):
        second[rng.randrange(9000)] = "other"
    a, b = shingles(first), shingles(second)
    expected = len(a & b) / len(a | b)
    assert 0.7 < expected < 0.95
    similarity = np.mean(signature(" ".join(first)) == signature(" ".join(second)))
    assert similarity == pytest.approx(expected, abs=0.06)


def test_case_punctuation_and_lines_make_no_difference():
    plain = signature("the sea and the storm in the night")
    assert plain.dtype == np.uint32
    np.testing.assert_array_equal(
        plain, signature("The Sea,", "", "and -- THE storm in the night!")
    )
    assert (plain != signature("the sea and a storm in the night")).any()
    # Nothing is left from the document before.
    signer = DocumentSigner(3, 256)
    signer.add_line("another one altogether, with words")
    signer.end_document()
    signer.add_line("the sea and the storm in the night")
    np.testing.assert_array_equal(signer.end_document(), plain)


def test_vowel_signs_make_a_difference():
    # The same consonants.
    assert (signature("किताबी कितिबा") != signature("कुतेबु कातुबे")).any()
    words = near_duplicates._word_pattern().findall("किताब में re\u0301sume\u0301 x_1, 日本かな")
    assert words == ["किताब", "में", "re\u0301sume\u0301", "x_1", *"日本かな"]


def test_short_documents_and_those_without_words():
    assert signature("... !", "") is None
    np.testing.assert_array_equal(signature("the sea"), signature("The sea."))
    assert (signature("the sea") != signature("the night")).all()
    assert (signature("the sea") != signature("the")).all()
    # Ideographs are words.
    a = signature("\u6211\u4eec\u5728\u6d77\u4e0a\u7b49\u5f85\u98ce\u66b4")
    b = signature("\u6211\u4eec\u5728\u6d77\u4e0a\u7b49\u5f85\u98ce")
    assert 0.5 < np.mean(a == b) < 1


def test_pieces_of_a_long_line_are_one_text():
    text = "one two three four " * 3000 + "five"
    signer = DocumentSigner(3, 256)
    for start in range(0, len(text), 777):
        signer.add_line(text[start : start + 777], complete=start + 777 >= len(text))
    np.testing.assert_array_equal(signer.end_document(), signature(text))


def test_the_first_of_similar_documents_is_kept():
    words = [f"word{i}" for i in range(200)]
    changed = words[:190] + [f"other{i}" for i in range(10)]
    texts = [changed, words, [f"x{i}" for i in range(99)], [*words, "more"], changed]
    signatures = np.stack([signature(" ".join(text)) for text in texts])
    found = find_near_duplicates(signatures, 0.8)
    assert found.tolist() == [False, True, False, True, True]
    assert find_near_duplicates(signatures, 1.0)[[0, 1, 2, 4]].tolist() == [False] * 3 + [True]
    assert find_near_duplicates(signatures[:0], 0.8).tolist() == []


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("num_permutations", [2, 64, 128, 500])
def test_bands_fit_the_signature_and_find_the_pairs_at_the_threshold(
    threshold, num_permutations
):
    num_bands, length = choose_bands(threshold, num_permutations)
    assert 2 <= num_bands * length <= num_permutations
    assert num_bands >= 2
    assert length == 1 or 1 - (1 - threshold**length) ** num_bands >= 0.95
    num_longer = num_permutations // (length + 1)
    assert num_longer < 2 or 1 - (1 - threshold ** (length + 1)) ** num_longer < 0.95


def test_impossible_settings_and_a_missing_package_are_one_line(monkeypatch):
    for settings, flag in [((0, 5, 128), "threshold"), ((0.8, 0, 128), "words")]:
        with pytest.raises(UserError, match=f"--near_duplicate_{flag} must be"):
            check_near_duplicates(*settings)
    with pytest.raises(UserError, match="--near_duplicate_permutations must be at least 2"):
        check_near_duplicates(0.8, 5, 1)
    for settings, flag in [((10**9, 128), "words"), ((5, 10**9), "permutations")]:
        with pytest.raises(UserError, match=f"--near_duplicate_{flag} must be at most 65,536"):
            check_near_duplicates(0.8, *settings)
    monkeypatch.setitem(__import__("sys").modules, "datasketch", None)
    with pytest.raises(UserError, match=r"--deduplicate=near needs .*electra-tf\[corpus\]"):
        check_near_duplicates(0.8, 5, 128)


def test_a_document_that_ends_within_a_line_has_all_of_its_words(monkeypatch):
    whole = signature("one two three four five")
    signer = DocumentSigner(3, 256)
    signer.add_line("one two thr", complete=False)
    signer.add_line("ee four five", complete=False)
    np.testing.assert_array_equal(signer.end_document(), whole)
    # The hashes of words are those of before, after all have been forgotten.
    monkeypatch.setattr(near_duplicates, "_MAX_CACHED_WORDS", 2)
    np.testing.assert_array_equal(signature("one two three four five"), whole)


def test_parts_of_a_word_without_end_are_words(monkeypatch):
    monkeypatch.setattr(near_duplicates, "_MAX_WORD_CHARACTERS", 4)
    signer = DocumentSigner(3, 256)
    signer.add_line("one two abcdef", complete=False)
    signer.add_line("gh", complete=True)
    np.testing.assert_array_equal(signer.end_document(), signature("one two abcdef gh"))
