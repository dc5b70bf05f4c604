"""The fine-tuning part of the reference check, on the set that ships with the tests."""

import json
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import pytest

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.vocabulary import load_vocabulary
from tests.check_reference import find_sets
from tests.reference import (
    classification_checks,
    qa_checks,
    qa_feature_checks,
    tagging_checks,
)
from tests.reference.classification_checks import RecordedHeads
from tests.reference.qa_scorer_checks import check_squad_evaluation
from tests.reference.result import relative_difference
from tests.reference.test_numeric_checks import assert_all_pass

ROOT = pathlib.Path(__file__).parents[2]
REFERENCE_DIR = ROOT / "tests/data/reference/finetuning"


@pytest.mark.parametrize(
    ("check", "count"),
    [
        (classification_checks.check_scorers, 3),
        (classification_checks.check_heads, 5),
        (classification_checks.check_layer_rates, 3),
        (tagging_checks.check_spans, 2),
        (tagging_checks.check_scorers, 1),
        (tagging_checks.check_heads, 1),
        (qa_checks.check_qa_heads, 12),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_check(check: Callable, count: int, subtests):
    assert len(assert_all_pass(check(REFERENCE_DIR), subtests)) == count


@pytest.mark.parametrize(
    ("check", "model", "name"),
    [
        (classification_checks.check_heads, "multi", "out/loss"),
        (classification_checks.check_heads, "multi", "out/sts/targets"),
        (classification_checks.check_heads, "qa_plain", "out/squad/start_positions"),
        (qa_checks.check_qa_heads, "qa_plain", "out/squad/end_top_index"),
    ],
)
def test_a_wrong_output_fails(tmp_path, check, model, name):
    shutil.copytree(REFERENCE_DIR / "heads", tmp_path / "heads")
    path = tmp_path / "heads" / model / "arrays.npz"
    arrays = dict(np.load(path))
    arrays[name] = arrays[name] + 1
    np.savez(path, **arrays)
    assert any(not result.passed for result in check(tmp_path))


def test_models_of_any_name_and_task_are_checked(tmp_path, subtests):
    shutil.copytree(REFERENCE_DIR / "heads" / "multi", tmp_path / "heads" / "other")
    config_path = tmp_path / "heads" / "other" / "config.json"
    config_path.write_text(config_path.read_text().replace('"cola"', '"unknown"'))
    results = {result.name: result for result in classification_checks.check_heads(tmp_path)}
    assert results["head other sts"].passed
    assert "there is no such task" in results["heads other together"].detail


@pytest.mark.parametrize(
    ("given", "width", "layers", "heads", "embedding_size"),
    [
        (
            {"model_hparam_overrides": {"hidden_size": 128, "num_hidden_layers": 1}},
            128,
            1,
            2,
            128,
        ),
        ({"embedding_size": None}, 256, 12, 4, 256),
        ({"model_size": "base"}, 768, 12, 12, 768),
    ],
)
def test_models_have_the_sizes_that_the_settings_leave_out(
    tmp_path, monkeypatch, given, width, layers, heads, embedding_size
):
    config = {"task_names": ["sst"], "vocab_size": 8, **given}
    (tmp_path / "config.json").write_text(json.dumps({"config": config}))
    np.savez(tmp_path / "arrays.npz")
    monkeypatch.setattr(RecordedHeads, "load", lambda *_: None)
    assert RecordedHeads(tmp_path).encoder_config == EncoderConfig(
        vocab_size=8,
        embedding_size=embedding_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )


def test_correlations_with_constants_agree():
    assert relative_difference([np.nan, 1.0], [np.nan, 1.0]) == 0
    assert relative_difference(np.nan, 1.0) == relative_difference(1.0, np.nan) == np.inf


def test_sets_in_a_folder_are_found():
    assert find_sets(REFERENCE_DIR) == [REFERENCE_DIR]
    both = [REFERENCE_DIR, REFERENCE_DIR.with_name("pretraining")]
    assert find_sets(REFERENCE_DIR.parent) == both


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


def test_malformed_rows_are_read_as_by_the_authors(tmp_path, subtests):
    lines = ["label\ti\tj\ta\tb", "1\t1\t2\tcat\tcat cat", "0\t3", "0\t4\t5\tcat\tcat\tmore"]
    files = {
        "mrpc/train.tsv": lines,
        "mrpc/dev.tsv": ["label\ti\tj\ta\tb", "0\t1\t2\tcat\tcat"],
    }
    (tmp_path / "features_raw_classification.json").write_text(json.dumps(files))
    expected = [  # swapped pairs count on from the number of rows that are read
        ("train", 0, "cat", "cat cat", "1"),
        ("train", 2, "cat", "cat", "0"),
        ("train", 2, "cat cat", "cat", "1"),
        ("train", 4, "cat", "cat", "0"),
        ("dev", 0, "cat", "cat", "0"),
        ("test", 0, "cat", "cat", "0"),  # without a file
    ]
    with (tmp_path / "features.jsonl").open("w") as file:
        for split, eid, text_a, text_b, label in expected:
            counts = [text.count("cat") for text in (text_a, text_b)]
            ids = [101, *counts[0] * [4937], 102, *counts[1] * [4937], 102]
            segments = (counts[0] + 2) * [0] + (counts[1] + 1) * [1]
            features = {"input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": segments}
            features = {name: v + (8 - len(v)) * [0] for name, v in features.items()}
            features |= {"mrpc_eid": eid, "mrpc_label_ids": int(label)}
            config = {"task_names": ["mrpc"], "max_seq_length": 8, "do_lower_case": True}
            raw = {"eid": eid, "text_a": text_a, "text_b": text_b, "label": label}
            line = {"task": "mrpc", "split": split, "is_training": split == "train"}
            line |= {"config": config, "raw": raw, "features": features}
            file.write(json.dumps(line) + "\n")
    vocab_file = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
    *found, missing = classification_checks.check_features(tmp_path, vocab_file)
    assert len(assert_all_pass(found, subtests)) == 2
    assert "No such file" in missing.detail


def test_ideographs_of_tagging_stay_together_up_to_the_longest_word():
    vocabulary = load_vocabulary(ROOT / "recipes/vocab/bert_uncased_vocab.txt")
    first, other = vocabulary.ids["中"], vocabulary.ids["##中"]
    tokenizer = tagging_checks.WordsAsTheyStand(vocabulary)
    pieces = [ids.tolist() for ids in tokenizer.tokenize([200 * "中", 201 * "中"])]
    assert pieces == [[first, *199 * [other]], [vocabulary.unk_id]]


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
