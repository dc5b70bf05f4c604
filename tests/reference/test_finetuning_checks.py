"""The fine-tuning part of the reference check, on the set that ships with the tests."""

import pathlib
from collections.abc import Callable

import pytest

from tests.reference import classification_checks, qa_checks, tagging_checks
from tests.reference.qa_scorer_checks import check_squad_evaluation
from tests.reference.test_numeric_checks import assert_all_pass

ROOT = pathlib.Path(__file__).parents[2]
REFERENCE_DIR = ROOT / "tests/data/reference/finetuning"


@pytest.mark.parametrize(
    ("check", "count"),
    [
        (classification_checks.check_scorers, 3),
        (classification_checks.check_heads, 2),
        (classification_checks.check_layer_rates, 3),
        (tagging_checks.check_spans, 2),
        (tagging_checks.check_scorers, 1),
        (tagging_checks.check_head, 1),
        (qa_checks.check_qa_heads, 12),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_check(check: Callable, count: int, subtests):
    assert len(assert_all_pass(check(REFERENCE_DIR), subtests)) == count


def test_squad_evaluation(subtests):
    vocab_file = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    results = check_squad_evaluation(REFERENCE_DIR, vocab_file)
    assert len(assert_all_pass(results, subtests)) == 4
