"""The study: equal FLOPs, its verdicts and report, and a run of a few steps."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks import finetuning_runs
from benchmarks.study import analysis, data, figures, pages, report, work
from benchmarks.study.analysis import CLAIMS, REPRODUCED, REVERSED, SAME, UNKNOWN, Scores
from benchmarks.study.data import labeled_test_set
from benchmarks.study.models import (
    BERT,
    ELECTRA,
    MODELS,
    QUESTIONS,
    RANDOM,
    model_flops_of,
    settings_of,
)
from benchmarks.study.plan import (
    ABLATION,
    ABLATION_BUDGET,
    BUDGETS,
    CLAIM,
    CLAIM_SEEDS,
    FOLLOW_UP,
    GATE,
    LOWEST_LOSS_BUDGETS,
    STAGES,
    Run,
    alias,
    choose,
    plan,
)
from benchmarks.study.results import FINETUNING, PROBE, Result, read_result, write_result
from benchmarks.study.sizes import SMALL, TINY
from benchmarks.study.work import is_trained
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model_builder import model_class
from electra_tf.util.errors import UserError
from tests.fork_server import ForkedProgram
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[2]


def test_every_model_gets_the_product_flops_of_electra():
    unit = TINY.unit_steps * model_flops_of(settings_of(ELECTRA, TINY, 1.0, 1))
    for model in MODELS:
        settings = settings_of(model, TINY, 2.0, 1)
        step = model_flops_of(settings)
        spent = settings["num_train_steps"] * step
        if model.continues:
            spent += unit
        # The steps of two stages are rounded, and a step has not the same FLOPs in both.
        assert 2 * unit - 2 * step < spent <= 2 * unit, model.name
    steps = {m.name: settings_of(m, TINY, 1.0, 1)["num_train_steps"] for m in MODELS}
    assert steps["ELECTRA"] == TINY.unit_steps
    assert steps["All-Tokens MLM"] < steps["Replace MLM"] < steps["BERT"]
    assert steps["generator 1"] < steps["generator 1/2"] < steps["generator 1/4"]
    assert {model.question for model in MODELS} == {"", *QUESTIONS}


@pytest.mark.parametrize("size", [TINY, SMALL], ids=lambda size: size.name)
def test_no_model_is_refused_when_it_is_trained(size):
    for model in MODELS:
        settings = settings_of(model, size, 2.0, 1)
        config = PretrainingConfig.create(data_dir="-", model_name="-", **settings)
        model_class(config).check(config)
        model_class(config).check_loss_weights(config)


def test_the_plan():
    claim, ablations = plan(CLAIM, TINY), plan(ABLATION, TINY)
    pretrained = [run for run in claim if run.model != RANDOM.name]
    num_points = 2 * len(BUDGETS) + len(LOWEST_LOSS_BUDGETS)
    assert len(pretrained) == num_points * len(CLAIM_SEEDS)
    # A study that is stopped early has both models of a seed.
    assert {(run.model, run.seed) for run in pretrained[:2]} == {("ELECTRA", 1), ("BERT", 1)}
    everything = [run for stage in STAGES for run in plan(stage, TINY)]
    assert len({run.name for run in everything}) == len(everything)
    assert len(choose(everything, ["BERT"], ["1"])) == len(BUDGETS)
    (run,) = choose(everything, ["BERT"], ["1"], ["2"])
    assert run.name == "bert_b2_s1"
    with pytest.raises(UserError, match="--models: 'GPT' is none of"):
        choose(everything, ["GPT"], None)
    # What has the settings of another model is not trained again.
    names = {run.model for run in ablations}
    models = {model.name: model for model in MODELS}
    assert ("share all" in names) == (alias(models["share all"], TINY) is not ELECTRA)
    assert alias(models["generator 1/8"], TINY).name == "generator 1/8"
    assert alias(models["share embeddings"], TINY).name == "generator 1"
    assert "share embeddings" not in names
    named = {claim.better for claim in CLAIMS} | {claim.worse for claim in CLAIMS}
    assert named <= set(models)
    # What continues another model has half of the budget.
    run = next(run for run in ablations if run.model == "adversarial")
    assert run.starts_from.name == "generator_1_b1_s1"
    assert run.starts_from.settings == settings_of(models["generator 1"], TINY, 1.0, 1)
    # The follow-up has the budgets that the ablations have not.
    assert {run.model for run in plan(FOLLOW_UP, TINY)} == {"generator 1/4"}
    assert {run.budget for run in plan(FOLLOW_UP, TINY)} == {*BUDGETS} - {ABLATION_BUDGET}
    assert plan(GATE, TINY)
    assert not plan(GATE, SMALL)
    assert not any(run.is_evaluated for run in plan(GATE, TINY))


def test_results_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "run.json"
    settings = {"learning_rate": 1e-3, "num_train_steps": 7}
    assert read_result(path, settings, ["--seed=1"]) is None
    result = Result(settings, ["--seed=1"], scores={PROBE: {"sst": [70.123456789]}})
    write_result(path, result)
    found = read_result(path, settings, ["--seed=1"])
    assert found.scores == {PROBE: {"sst": [70.1235]}}
    assert found.has(PROBE, "sst")
    assert not found.has(FINETUNING, "sst")
    with pytest.raises(UserError, match=r"there learning_rate is 0\.001, and now 0\.002"):
        read_result(path, {**settings, "learning_rate": 2e-3}, ["--seed=1"])
    with pytest.raises(UserError, match="finetuning_flags"):
        read_result(path, settings, [])
    (tmp_path / "ckpt-7.index").touch()
    (tmp_path / "config.json").write_text(json.dumps({"hyperparameters": settings}))
    assert is_trained(settings, tmp_path)
    with pytest.raises(UserError, match=r"There learning_rate is 0\.001, and now 0\.002"):
        is_trained({**settings, "learning_rate": 2e-3}, tmp_path)


@pytest.mark.parametrize(
    ("header", "test", "labeled"),
    [
        ("sentence\tlabel", "index\tsentence\n0\tgood", "sentence\tlabel\ngood\t1\n"),
        ("Quality\ta\tb", "index\ta\tb\n0\tx\ty", "Quality\ta\tb\n1\tx\ty\n"),
        ("index\ta\tscore", "index\ta\n0\tx", "index\ta\tscore\n0\tx\t1\n"),
    ],
)
def test_a_test_set_gets_its_labels(tmp_path, header, test, labeled):
    (tmp_path / "dev.tsv").write_text(f"{header}\n")
    (tmp_path / "test.tsv").write_text(f"{test}\n")
    (tmp_path / "test_labels.tsv").write_text("index\tlabel\n0\t1\n")
    assert labeled_test_set(tmp_path) == labeled


def made_up(model: str, budget: float, seed: int, scores: dict[str, float]) -> tuple:
    run = Run(model, budget, seed, f"{model}_{budget:g}_{seed}", {"num_train_steps": 10})
    values = {task: [score - 1, score + 1] for task, score in scores.items()}
    result = Result(scores={FINETUNING: values}, model_flops=budget * 1e14)
    if model != RANDOM.name:
        metrics = {"disc_auc": 0.7, "disc_auc_within_token": 0.66, "masked_lm_accuracy": 0.05}
        metrics |= {
            "loss": 20.0,
            "masked_lm_loss": 4.0,
            "disc_loss": 0.2,
            "replaced_share": 0.1,
        }
        result.pretraining = {"seconds": 9.0, "metrics": metrics, "unigram_accuracy": 0.05}
        result.pretraining["curve"] = [{"step": 10, **metrics}]
    return run, result


def made_up_study() -> list[tuple]:
    done = []
    for seed in (1, 2, 3, 4):
        noise = 0.1 * (seed - 2.5)
        done.append(made_up(RANDOM.name, 0.0, seed, {"sst": 60 + noise, "rte": 53 + noise}))
        for budget, ahead in zip(BUDGETS, (-2.0, 0.0, 2.0), strict=True):
            for model, gain in ((ELECTRA.name, ahead), (BERT.name, 0.0)):
                scores = {"sst": 70 + gain + noise, "rte": 53 - noise}
                done.append(made_up(model, budget, seed, scores))
    done.append(made_up("Replace MLM", ABLATION_BUDGET, 1, {"sst": 75.0, "rte": 53.0}))
    return done


def test_a_generator_without_weights_has_not_failed_to_learn():
    trained = {"metrics": {"masked_lm_accuracy": 0.0}, "unigram_accuracy": 0.07}
    runs = [r for r in plan(ABLATION, TINY) if r.model in ("uniform generator", "share all")]
    results = [(run, Result(pretraining=trained)) for run in runs]
    assert {name[: -len("_b2_s1")] for name in analysis.unlearned(results)} == {"share_all"}


def test_verdicts_have_seeds_as_their_unit():
    scores = Scores(made_up_study(), TINY, ["sst", "rte", "cola"])
    assert scores.counting == {FINETUNING: ("sst",), PROBE: ()}
    assert scores.averages(FINETUNING, (ELECTRA.name, 1.0)) == pytest.approx(
        [67.85, 67.95, 68.05, 68.15]
    )
    found = analysis.orderings(scores, FINETUNING)
    assert [ordering.verdict for ordering in found[:3]] == [REVERSED, SAME, REPRODUCED]
    assert found[0].counts == (4, 4)
    assert found[0].comparison.difference == pytest.approx(-2.0)
    assert {ordering.verdict for ordering in found[3:]} == {UNKNOWN}
    replaced = next(o for o in found if o.claim.better == "Replace MLM")
    assert (replaced.counts, replaced.comparison) == ((1, 4), None)
    # Adjusted for the three comparisons that there are.
    assert found[1].p_equivalent == pytest.approx(3 * found[1].comparison.p_equivalent)


def test_ablations_do_not_weaken_the_claim():
    done = made_up_study()
    for model, gain in (("Replace MLM", 0.0), ("ELECTRA 15 %", 0.5), ("All-Tokens MLM", 0.0)):
        done += [
            made_up(model, ABLATION_BUDGET, seed, {"sst": 70 + gain + 0.1 * seed, "rte": 53.0})
            for seed in (2, 3, 4)
        ]
    found = analysis.orderings(Scores(done, TINY, ["sst"]), FINETUNING)
    alone = analysis.orderings(Scores(made_up_study(), TINY, ["sst"]), FINETUNING)
    for ordering, before in zip(found[:3], alone[:3], strict=True):
        assert ordering.p == before.p == before.p_overall
        assert ordering.p_overall >= ordering.p
    assert found[2].p_overall > found[2].p


def test_the_report_of_what_there_is(tmp_path):
    done = made_up_study()
    attempt, result = plan(GATE, TINY)[0], done[-1][1]
    scores = Scores(done, TINY, ["sst", "rte"])
    for gate, runs, expected in (
        ([(attempt, result)], done, list(figures.TITLES)),
        ([], [], []),
    ):
        scores = Scores(runs, TINY, ["sst", "rte"])
        drawn = figures.plot(gate, runs, scores, tmp_path)
        assert drawn == expected
        planned = dict.fromkeys(STAGES, 3)
        sections = report.create_sections(gate, planned, runs, scores, TINY, drawn)
        markdown, page = (p.read_text() for p in pages.write_report(sections, tmp_path))
        assert '<meta name="viewport" content="width=device-width' in page
        assert markdown.count("![") == page.count("<img") == len(expected)
        assert [path.stem for path in sorted(tmp_path.glob("*.png"))] == sorted(expected)
        if runs:
            assert "reproduced: 1, reversed: 1, no difference: 1, not known: 12" in markdown
            assert "| ELECTRA > BERT | Table 5, Figure 4: 85.0 and 82.2 | 4 | repr" in markdown
            assert "at a budget of 2, 95 % interval" in markdown
            assert "| ELECTRA, 1 | 4 | 1.00e+14 | 9 | 68.00 ± 0.13 |" in markdown
            assert "no better than the most frequent token: ELECTRA_1_1" in markdown
            # −0.1 ln 0.1 − 0.9 ln 0.9 nats, of which a loss of 0.2 leaves 38.5 %.
            assert (
                "| ELECTRA, 1 | 4 | 0.660 ± 0.000 | 10.0 ± 0.0 | – | 0.325 ± 0.000 |"
                in markdown
            )
            assert "| 38.5 ± 0.0 | 80.0 ± 0.0 |" in markdown
            assert (
                "What is explained, or the average score, is the same in all runs" in markdown
            )
        else:
            assert "not known: 15" in markdown
            assert "not known: it takes two budgets" in markdown
            assert "Too few runs to say" in markdown


@pytest.fixture
def forked_programs(monkeypatch) -> None:
    """Starts the study's programs as forks; modules (`-m`) are processes as ever."""
    run_logged = finetuning_runs.run_logged

    def run_forked(command, log_file, environment):
        program, *arguments = command
        if program == "-m":
            return run_logged(command, log_file, environment)
        forked = ForkedProgram(program, arguments, {**os.environ, **environment})
        output = forked.communicate()
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("a", encoding="utf-8") as log:
            log.writelines(output)
        return forked.returncode

    for module in (data, finetuning_runs, work):
        monkeypatch.setattr(module, "run_logged", run_forked)


def test_a_study_of_a_few_steps_is_run_and_resumed(
    tmp_path, monkeypatch, capfd, forked_programs
):
    folder = tmp_path / "tasks" / "sst"
    folder.mkdir(parents=True)
    rows = "sentence\tlabel\n" + "a fine nation\t1\nno nation\t0\n" * 20
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text(rows)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    text = (ROOT / "demo/corpus/inaugural_addresses_1.txt").read_text(encoding="utf-8")
    (corpus / "1.txt").write_text(text[:120_000], encoding="utf-8")
    (corpus / "2_held_out.txt").write_text(text[120_000:130_000], encoding="utf-8")
    command = [
        "-m",
        "benchmarks.study",
        f"--corpus_dir={corpus}",
        f"--finetuning_data_dir={tmp_path / 'tasks'}",
        f"--data_dir={tmp_path / 'study'}",
        f"--report_dir={tmp_path / 'report'}",
        "--size=tiny",
        "--stages=ablations",
        "--models=adversarial",
        "--seeds=1",
        "--tasks=sst",
        "--scale=0.00025",
        "--num_trials=1",
        "--num_processes=1",
    ]

    def output_of(done: subprocess.CompletedProcess[str]) -> str:
        logs = [p.read_text()[-2000:] for p in (tmp_path / "study").glob("**/*log*.txt")]
        assert done.returncode == 0, done.stdout + done.stderr + "\n".join(logs)
        return done.stdout

    def run() -> str:
        return output_of(run_program(command, ROOT, monkeypatch, capfd))

    assert "pre-training: started" in run()
    path = tmp_path / "report" / "runs" / "adversarial_b2_s1.json"
    first = json.loads(path.read_text())
    assert first["settings"]["num_train_steps"] == 2
    # It continues another model.
    models = tmp_path / "study" / "models"
    config = json.loads((models / "adversarial_b2_s1" / "config.json").read_text())
    init = config["hyperparameters"]["init_checkpoint"]
    assert init == str(models / "generator_1_b1_s1")
    assert (models / "generator_1_b1_s1" / "ckpt-2.index").exists()
    step = model_flops_of(first["settings"])
    assert first["model_flops"] > 1.5 * 2 * step
    assert 0 < first["pretraining"]["metrics"]["disc_auc_within_token"] < 1
    assert set(first["scores"]) == {PROBE, FINETUNING}
    # The task that is there is not done again. This time, the study is a process of its own.
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert "started" not in output_of(done)
    assert json.loads(path.read_text()) == first
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert "| adversarial_b2_s1 | 2 |" in markdown
    # Scores of other weights, which another machine has trained, are not kept.
    others = json.loads(path.read_text())
    others["pretraining"]["metrics"]["loss"] += 1
    others["scores"] = {PROBE: {"sst": [1.0]}, FINETUNING: {}}
    path.write_text(json.dumps(others))
    written = path.stat().st_mtime
    run()
    again = json.loads(path.read_text())
    assert again["scores"] == first["scores"]
    assert again["pretraining"]["metrics"] == first["pretraining"]["metrics"]
    (log,) = (tmp_path / "study" / "finetuned").glob("**/log.txt")
    assert log.stat().st_mtime > written
