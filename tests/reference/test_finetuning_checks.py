"""The fine-tuning part of the reference check, on the set that ships with the tests."""

import json
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


def test_features_of_tagging_are_lowercased_whatever_the_settings(tmp_path, subtests):
    config = {"task_names": ["chunk"], "max_seq_length": 8, "do_lower_case": False}
    features = {
        "input_ids": [101, 4937, 102, 0, 0, 0, 0, 0],  # [CLS] cat [SEP]
        "input_mask": [1, 1, 1, 0, 0, 0, 0, 0],
        "segment_ids": [1, 1, 1, 0, 0, 0, 0, 0],
        "chunk_eid": 0,
        "chunk_labels": [0] * 8,
        "chunk_labels_mask": [1.0] + 7 * [0.0],
        "chunk_labeled_positions": [1] + 7 * [0],
    }
    raw = {"eid": 0, "words": ["Cat"], "tags": ["B-NP"]}
    line = {"task": "chunk", "split": "train", "config": config, "raw": raw}
    text = json.dumps({**line, "features": features})
    (tmp_path / "features.jsonl").write_text(text + "\n")
    (tmp_path / "features_chunk_label_mapping.json").write_text('{"S-NP": 0}')
    vocab_file = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    results = tagging_checks.check_features(tmp_path, vocab_file)
    assert len(assert_all_pass(results, subtests)) == 2
