"""score_text.py's work from files to files, on a model that was trained a few steps."""

import dataclasses
import json
import pathlib
import re
import sys

import numpy as np
import pytest

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.inference.scoring import run as scoring_run
from electra_tf.inference.scoring.config import ScoringConfig
from electra_tf.inference.scoring.masked import MaskedScorer
from electra_tf.inference.scoring.run import _print_perplexity, _read_texts, run
from electra_tf.inference.scoring.scorer import Scorer, TextScore
from electra_tf.util.errors import UserError
from tests import pretraining_runs
from tests.conftest import tiny_settings
from tests.electra_tf.pretraining.test_run import quiet


@pytest.fixture(scope="module")
def model(tiny_data, tmp_path_factory) -> PretrainingConfig:
    """A model that was trained a few steps."""
    settings = tiny_settings(tiny_data, tmp_path_factory.mktemp("scored"))
    config = PretrainingConfig.create(**settings | {"num_train_steps": 2})
    pretraining_runs.train(config, quiet)
    return config


@pytest.fixture
def make_scoring(model, tmp_path):
    def make(**given) -> ScoringConfig:
        for name in ("text_file", "nbest_file", "tune_nbest_file"):
            if name in given:
                path = tmp_path / f"{name}.txt"
                path.write_text(given[name])
                given[name] = path
            else:
                given[name] = None
        settings = {
            "model": model,
            "method": "auto",
            "num_candidates": 0,
            "batch_size": 8,
            "output_file": tmp_path / "scores",
            "nbest_weight": 1.0,
            "nbest_metric": "wer",
            "truncate": False,
            "overwrite": False,
        }
        return ScoringConfig(**{**settings, **given})

    return make


def test_scores_texts_and_their_perplexity(make_scoring):
    said = []
    config = make_scoring(text_file="w1 w2 w3\n\nw4\tw5\rw6\n")
    run(config, said.append)
    header, *rows = [line.split("\t") for line in config.output_file.read_text().splitlines()]
    assert header == ["line", "pll", "tokens", "pll_per_token", "text"]
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("1", "3", "w1 w2 w3"),
        ("3", "3", "w4 w5 w6"),
    ]
    for row in rows:
        assert float(row[1]) == pytest.approx(float(row[3]) * int(row[2]), abs=1e-5)
    total = sum(float(row[1]) for row in rows)
    assert any(f"pseudo-perplexity {np.exp(-total / 6):.2f}" in line for line in said)
    with pytest.raises(UserError, match="--overwrite"):
        run(config, said.append)
    own = dataclasses.replace(config, output_file=config.text_file, overwrite=True)
    with pytest.raises(UserError, match="is the file that --text_file reads"):
        run(own, said.append)
    assert config.text_file.read_text().startswith("w1 w2 w3")
    vocabulary = pathlib.Path(config.model.vocab_file)
    content = vocabulary.read_bytes()
    with pytest.raises(UserError, match="is the file that --vocab_file reads"):
        run(dataclasses.replace(config, output_file=vocabulary, overwrite=True), said.append)
    assert vocabulary.read_bytes() == content


@pytest.mark.parametrize("method", ["mlm", "electra"])
def test_counts_the_tokens_that_are_predicted(make_scoring, method):
    said = []
    text = "w1 w2 w3\nw4 w5 w6 w7\n"
    config = make_scoring(text_file=text, method=method, num_candidates=40)
    run(config, said.append)
    header, *rows = [line.split("\t") for line in config.output_file.read_text().splitlines()]
    assert header == ["line", "pll", "tokens", "pll_per_token", "correct", "text"]
    assert [row[-1] for row in rows] == text.splitlines()
    correct = sum(int(row[4]) for row in rows)
    (line,) = [line for line in said if line.startswith("Tokens predicted from all others: ")]
    assert f"{method} {correct / 7:.2%}" in line
    assert (", generator " in line) == (method == "electra")


@pytest.mark.parametrize("method", ["mlm", "electra"])
def test_many_texts_are_scored_in_parts_with_progress(make_scoring, monkeypatch, method):
    texts = "".join(f"w{i} w{i + 1} w{i + 2}\n" for i in range(1, 8))
    config = make_scoring(text_file=texts, method=method)
    run(config, quiet)
    whole = config.output_file.read_text()
    sizes, said = [], []
    score = Scorer.score

    def counting(scorer: Scorer, rows: list) -> list[TextScore]:
        sizes.append(len(rows))
        return score(scorer, rows)

    monkeypatch.setattr(Scorer, "score", counting)
    monkeypatch.setattr(scoring_run, "_COMPUTED_AT_ONCE", 60)
    monkeypatch.setattr(scoring_run, "SECONDS_BETWEEN_LOG_LINES", 0)
    run(dataclasses.replace(config, overwrite=True), said.append)
    # 25 or 30 tokens each
    assert sizes == ([3, 3, 1] if method == "mlm" else [2, 2, 2, 1])
    progress = [
        line for line in said if re.fullmatch(r"Scored \d of 7 texts, \d+ s left", line)
    ]
    assert len(progress) == len(sizes) - 1
    rows, wanted = (
        [line.split("\t") for line in content.splitlines()[1:]]
        for content in (config.output_file.read_text(), whole)
    )
    for row, expected in zip(rows, wanted, strict=True):
        assert (row[0], row[-1]) == (expected[0], expected[-1])
        assert float(row[1]) == pytest.approx(float(expected[1]), abs=1e-4)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("temperature", 2.0), ("mask_prob_end", 0.3), ("replacement", "argmax")],
)
def test_electra_scores_with_the_settings_of_its_training(make_scoring, model, setting, value):
    other = dataclasses.replace(model, **{setting: value})
    config = make_scoring(text_file="w1 w2\n", method="electra", model=other)
    with pytest.raises(UserError, match=rf"--method=electra needs .* {setting}: .* before, "):
        run(config, quiet)
    assert not config.output_file.exists()
    # The generator's own probabilities do not depend on them.
    run(dataclasses.replace(config, method="mlm"), quiet)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, ": No such file or directory"),
        (b"a\nb \xff\n", ": .*UTF-8"),
        (b" \n\n", " contains no text"),
    ],
)
def test_texts_that_cannot_be_read_are_named(tmp_path, content, problem):
    path = tmp_path / "texts.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"^--text_file={path}{problem}"):
        _read_texts(path)


def test_reranks_lists_and_says_the_error_rates(make_scoring):
    said = []
    lists = json.dumps(
        {"id": "a", "hypotheses": [{"text": "w1 w2", "score": -1}, "w3"], "reference": "w3"}
    )
    config = make_scoring(nbest_file=lists, tune_nbest_file=lists)
    run(config, said.append)
    (line,) = config.output_file.read_text().splitlines()
    result = json.loads(line)
    totals = [hypothesis["total"] for hypothesis in result["hypotheses"]]
    assert totals == sorted(totals, reverse=True)
    assert result["hypotheses"][0] == {
        "text": "w3",
        "score": 0.0,
        "pll": result["hypotheses"][0]["pll"],
        "total": totals[0],
        "rank_before": 1,
    }
    assert any("WER: first 0.00%, reranked 0.00%, oracle 0.00%" in line for line in said)


def test_texts_that_are_too_long_are_refused_or_cut(make_scoring):
    text = "w1\n" + " ".join(f"w{i}" for i in range(20)) + "\n"
    config = make_scoring(text_file=text)
    with pytest.raises(
        UserError, match=r"^--text_file: line 2 has 20 tokens, but the model takes at most 14"
    ):
        run(config, quiet)
    assert not config.output_file.exists()
    said = []
    short, long = '{"hypotheses": ["w1"], "reference": "w1"}\n', json.dumps(text)
    lists = f'{short}{{"hypotheses": ["w2", {long}]}}\n'
    with pytest.raises(UserError, match=r"^--nbest_file: a hypothesis in line 2 has 21 tokens"):
        run(make_scoring(nbest_file=lists, tune_nbest_file=short), said.append)
    assert said == []  # nothing has been scored
    run(make_scoring(text_file=text, truncate=True), said.append)
    assert "Texts truncated to 16 tokens: 1" in said


def test_an_output_that_cannot_be_written_is_refused_before_scoring(
    make_scoring, tmp_path, monkeypatch
):
    said = []
    config = make_scoring(text_file="w1\n", output_file=tmp_path, overwrite=True)
    with pytest.raises(UserError, match=f"--output_file={tmp_path} is a folder"):
        run(config, said.append)
    assert said == []

    def configure(*_: object) -> None:
        raise UserError("configured")

    # Devices can be configured until TensorFlow tokenizes.
    monkeypatch.setattr(scoring_run, "create_strategy", configure)
    monkeypatch.setattr(scoring_run, "Tokenizer", None)
    with pytest.raises(UserError, match="configured"):
        run(make_scoring(text_file="w1\n"), said.append)


def test_probabilities_that_are_not_finite_are_refused(make_scoring, monkeypatch):
    def score(self, rows):
        return [TextScore(np.full(len(row) - 2, np.nan)) for row in rows]

    monkeypatch.setattr(MaskedScorer, "score", score)
    config = make_scoring(text_file="w1 w2\n")
    with pytest.raises(UserError, match=r"ckpt-2 are not finite"):
        run(config, quiet)
    assert not config.output_file.exists()


def test_lists_to_tune_on_without_references_are_refused_before_scoring(make_scoring):
    lists, said = '{"hypotheses": ["w1 w2", "w3"]}\n', []
    with pytest.raises(UserError, match="--tune_nbest_file contains no reference"):
        run(make_scoring(nbest_file=lists, tune_nbest_file=lists), said.append)
    assert said == []


def test_lists_with_references_need_jiwer(make_scoring, monkeypatch):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    without = '{"hypotheses": ["w1 w2", "w3"]}\n'
    with_one = '{"hypotheses": ["w1 w2", "w3"], "reference": "w3"}\n'
    run(make_scoring(nbest_file=without), quiet)
    said = []
    for files in (
        {"nbest_file": without + with_one},
        {"nbest_file": without, "tune_nbest_file": with_one},
    ):
        with pytest.raises(UserError, match=r"needs jiwer.*electra-tf\[scoring\]"):
            run(make_scoring(**files, overwrite=True), said.append)
    assert said == []


def test_texts_that_the_scores_say_nothing_about_are_warned_of(make_scoring, capsys):
    lists = '{"hypotheses": ["w1 w2", "\\u200b"]}\n'
    for given in ({"text_file": "w1 한국어 w2\n"}, {"nbest_file": lists}):
        run(make_scoring(**given, nbest_metric="cer", overwrite=True), quiet)
    warnings = capsys.readouterr().err
    assert "33.3% of the words of --text_file are unknown ([UNK])" in warnings
    assert "hypotheses without tokens in --nbest_file: 1 of 2;" in warnings
    assert "--nbest_metric=cer has no effect: no list of --nbest_file has a ref" in warnings


def test_no_tokens_have_no_perplexity():
    said = []
    _print_perplexity([], said.append)
    assert said == []
