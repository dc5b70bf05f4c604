"""The study: equal FLOPs, its scores and verdicts, its report, and a run of a few steps."""

import json
import math
import pathlib
import subprocess
import sys

import pytest

from benchmarks.study import figures, pages, report, scores
from benchmarks.study.models import Model, random_start
from benchmarks.study.runs import SHARES, is_trained, saved_steps
from benchmarks.study.scores import Score
from benchmarks.study.variants import (
    ELECTRA,
    ELECTRA_STEPS,
    QUESTIONS,
    VARIANTS,
    Variant,
    choose_variants,
    flops_of,
    settings_of,
)
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]


def test_every_variant_gets_the_flops_of_electra():
    for variant in VARIANTS:
        electra = Variant(ELECTRA, (), {}, variant.hidden_size)
        budget = flops_of(settings_of(electra, 1.0), ELECTRA_STEPS)
        settings = settings_of(variant, 1.0)
        steps = settings["num_train_steps"]
        spent = flops_of(settings, steps)
        assert budget - flops_of(settings, 1) < spent <= budget, variant.name
    assert VARIANTS[0].name == ELECTRA
    assert settings_of(VARIANTS[0], 1.0)["num_train_steps"] == ELECTRA_STEPS
    steps = {v.name: settings_of(v, 1.0)["num_train_steps"] for v in VARIANTS}
    assert steps["All-Tokens MLM"] < steps["Replace MLM"] < steps["BERT"]
    assert steps["generator 1"] < ELECTRA_STEPS < steps["generator 1/4"]
    assert {question for v in VARIANTS for question in v.questions} == set(QUESTIONS)
    assert len({variant.folder for variant in VARIANTS}) == len(VARIANTS)


def test_an_unknown_variant_is_refused():
    assert choose_variants(None) == list(VARIANTS)
    assert [variant.name for variant in choose_variants(["BERT"])] == ["BERT"]
    with pytest.raises(UserError, match="--variants: 'GPT' is none of ELECTRA"):
        choose_variants(["BERT", "GPT"])


def test_checkpoints_are_where_shares_of_the_flops_are_spent():
    steps = saved_steps({"num_train_steps": 1002})
    assert steps == [250, 500, 1002]
    for step, share in zip(steps, SHARES, strict=True):
        assert step / 1002 == pytest.approx(share, abs=0.002)


def test_a_model_of_other_settings_is_not_taken_for_the_variant(tmp_path):
    settings = settings_of(VARIANTS[0], 1.0)
    assert not is_trained(settings, tmp_path)
    (tmp_path / f"ckpt-{settings['num_train_steps']}.index").touch()
    description = tmp_path / "config.json"
    description.write_text(json.dumps({"hyperparameters": settings}))
    assert is_trained(settings, tmp_path)
    description.write_text(json.dumps({"hyperparameters": {**settings, "temperature": 0.5}}))
    with pytest.raises(UserError, match=r"There temperature is 0\.5, and now 1\.5"):
        is_trained(settings, tmp_path)


def test_averages_and_their_errors():
    tasks = {
        "a": {("x", 1.0): Score(80.0, 0.6, 3), ("y", 1.0): Score(70.0, 0.1, 3)},
        "b": {("x", 1.0): Score(60.0, 0.8, 3)},
    }
    found = scores.averages(tasks)
    assert list(found) == [("x", 1.0)]
    assert found["x", 1.0] == Score(70.0, pytest.approx(0.5), 6)
    better, worse = Score(71.0, 0.3, 3), Score(70.0, 0.4, 3)
    assert scores.compare(better, worse) == "within noise"  # 1.0 is 2 errors of 0.5
    assert scores.compare(Score(71.1, 0.3, 3), worse) == "reproduced"
    assert scores.compare(worse, Score(71.1, 0.3, 3)) == "reversed"
    assert scores.compare(Score(71.1, 0.3, 3), worse, noise=0.5) == "within noise"


def test_the_noise_of_pretraining_is_what_fine_tuning_does_not_explain():
    noise = scores.pretraining_noise(Score(77.0, 0.3, 6), Score(78.3, 0.4, 6))
    assert noise == pytest.approx(1.2)  # 1.3 ** 2 - 0.5 ** 2
    assert scores.pretraining_noise(Score(77.0, 0.3, 6), Score(77.4, 0.4, 6)) == 0.0


def test_the_report_says_what_was_found(tmp_path):
    models = [
        Model(
            v.name,
            v.questions,
            v.hidden_size,
            seed=42,
            steps=100,
            flops=1e12 if v.hidden_size == 128 else 5e11,
            inference_flops=1e7,
            parameters=5,
            encoder_parameters=4,
            pretraining={"masked_lm_accuracy": 0.05 if v.name == "adversarial" else 0.25},
        )
        for v in VARIANTS
    ]
    task = {
        (model.name, share): Score(70.0 + i + share, 0.2, 3)
        for i, model in enumerate(models)
        for share in ((1.0,) if i % 2 else SHARES)
    }
    task[random_start(128)] = Score(50.0, 0.2, 3)
    task[random_start(64)] = Score(99.0, 0.2, 3)
    task["share tokens", 1.0] = Score(45.0, 0.2, 3)
    averages = scores.averages({"chunk": task})
    figures.plot(models, averages, tmp_path)
    facts = {
        "machine": "m",
        "command": "c",
        "seeds": 3,
        "scale": 1.0,
        "num_train_examples": 1000,
        "most_frequent_share": 0.05,
    }
    sections = report.create_sections(models, {"chunk": task}, averages, facts)
    paths = pages.write_report(sections, tmp_path)
    markdown, page = (path.read_text() for path in paths)
    assert (
        "| ELECTRA | All-Tokens MLM | Table 5 | 85.0 and 84.3 | reversed | -10.00 ± 1.00 |"
        in (markdown)
    )
    assert "| ELECTRA 64 | 5.0e+11 (2.0x) | 1.0e+07 (1.0x) | 4 | " in markdown
    assert "ELECTRA 64, 25 % trained" in markdown
    assert "71.00 ± 0.20 and 72.00 ± 0.20 on average" in markdown
    assert "has a standard error of 0.96 beside" in markdown
    assert "learnt nothing: adversarial. It is right at 0.050" in markdown
    assert "(but adversarial and BERT failed)" not in markdown
    assert markdown.count("(but adversarial failed)") == 2
    assert (
        "Clearly below random weights when fine-tuned: share tokens, ELECTRA 64, BERT 64."
        in markdown
    )
    assert "(but share tokens failed)" in markdown
    assert "reversed: ELECTRA over All-Tokens MLM" in page
    assert "| random weights | 0 | 0 | 50.00 ± 0.20 | 50.00 ± 0.20 |" in markdown
    assert "| random weights 64 | 0 |  |  | 99.00 ± 0.20 | 99.00 ± 0.20 |" in markdown
    assert markdown.count("![") == len(figures.FIGURES) == page.count("<img")
    assert "<th>model</th>" in page
    for name in figures.FIGURES:
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_a_study_of_a_few_steps_is_run_and_resumed(tmp_path):
    folder = tmp_path / "tasks" / "chunk"
    folder.mkdir(parents=True)
    sentence = "The DT B-NP\nnation NN I-NP\nprospers VBZ B-VP\n. . O\n\n"
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text(sentence * 40)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    text = (ROOT / "demo/corpus/inaugural_addresses_1.txt").read_text(encoding="utf-8")
    (corpus / "speeches.txt").write_text(text[:250_000], encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "benchmarks.study",
        f"--corpus_dir={corpus}",
        f"--finetuning_data_dir={tmp_path / 'tasks'}",
        f"--data_dir={tmp_path / 'study'}",
        f"--report_dir={tmp_path / 'report'}",
        "--tasks=chunk",
        "--variants=share by GDES",
        "--scale=0.0006",
        "--num_train_examples=32",
        "--num_trials=2",
    ]

    def run(*more: str) -> str:
        done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)
        logs = [p.read_text()[-2000:] for p in (tmp_path / "study").glob("**/*log*.txt")]
        assert done.returncode == 0, done.stdout + done.stderr + "\n".join(logs)
        return done.stdout

    assert "2 fine-tunings, 2 of them to do" in run()
    assert "2 fine-tunings, 0 of them to do" in run("--report_only")
    numbers = json.loads((tmp_path / "report/study.json").read_text())
    found = {score["model"]: score for score in numbers["scores"]}
    assert set(found) == {"share by GDES", "random weights"}
    assert all(math.isfinite(score["mean"]) for score in found.values())
