"""The fine-tuning part of the reference check, on the set that ships with the tests."""

import json
import pathlib
from collections.abc import Callable

import pytest

from tests.reference import (
    classification_checks,
    qa_checks,
    qa_feature_checks,
    tagging_checks,
)
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


@pytest.mark.parametrize(
    ("words", "tags", "mapping"),
    [
        (["Cat"], ["B-NP"], {"S-NP": 0}),  # lowercased, whatever the settings
        (["cat", "Cat"], ["B-NP", "I-VP"], {"B-VP": 0, "E-VP": 1}),  # one span by their rule
    ],
)
def test_features_of_tagging(tmp_path, subtests, words, tags, mapping):
    def padded(values: list, zero: float = 0) -> list:
        return values + (8 - len(values)) * [zero]

    config = {"task_names": ["chunk"], "max_seq_length": 8, "do_lower_case": False}
    count = len(words)
    features = {
        "input_ids": padded([101, *count * [4937], 102]),  # [CLS] cat [SEP]
        "input_mask": padded((count + 2) * [1]),
        "segment_ids": padded((count + 2) * [1]),
        "chunk_eid": 0,
        "chunk_labels": padded(sorted(mapping.values())),
        "chunk_labels_mask": padded(count * [1.0], 0.0),
        "chunk_labeled_positions": padded(list(range(1, count + 1))),
    }
    raw = {"eid": 0, "words": words, "tags": tags}
    line = {"task": "chunk", "split": "train", "config": config, "raw": raw}
    text = json.dumps({**line, "features": features})
    (tmp_path / "features.jsonl").write_text(text + "\n")
    (tmp_path / "features_chunk_label_mapping.json").write_text(json.dumps(mapping))
    vocab_file = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    results = tagging_checks.check_features(tmp_path, vocab_file)
    assert len(assert_all_pass(results, subtests)) == 2


def test_questions_of_mrqa_are_known_by_their_qid(tmp_path, subtests):
    question = {"question": "Cat", "answers": ["cat"]}
    paragraph = {"context": "cat", "qas": [{**question, "id": "theirs", "qid": "own"}]}
    (tmp_path / "features_raw_newsqa.json").write_text(json.dumps([paragraph]))
    raw = {"eid": 0, "qas_id": "theirs", "qid": "own", "question_text": "Cat"}
    features = {
        "input_ids": [101, 4937, 102, 4937, 102, 0, 0, 0],  # [CLS] cat [SEP] cat [SEP]
        "input_mask": [1, 1, 1, 1, 1, 0, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 0, 0, 0],
        "newsqa_eid": 0,
        "newsqa_doc_span_index": 0,
        "newsqa_tokens": ["[CLS]", "cat", "[SEP]", "cat", "[SEP]"],
        "newsqa_token_to_orig_map": [[3, 0]],
        "newsqa_token_is_max_context": [3],
    }
    line = {
        "task": "newsqa",
        "split": "dev",
        "is_training": False,
        "config": {"task_names": ["newsqa"], "max_seq_length": 8},
        "raw": {**raw, "n_doc_tokens": 1},
        "features": features,
    }
    (tmp_path / "features.jsonl").write_text(json.dumps(line) + "\n")
    vocab_file = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    results = qa_feature_checks.check_qa_features(tmp_path, vocab_file)
    assert len(assert_all_pass(results, subtests)) == 1
