"""Tests of benchmarks.pretraining_helps on results that are there already."""

import json
import pathlib
import subprocess
import sys

import pytest
import scipy.stats

from finetune.results.result_files import write_results
from finetune.results.summary import DEGENERATE, OK, TrialResult

REPOSITORY = pathlib.Path(__file__).parents[2]
SCORES = {"pretrained": [70.0, 75.0, 71.0], "random": [60.0, 50.0, 61.0]}


def _write_results(output_dir: pathlib.Path) -> None:
    for start, scores in SCORES.items():
        trials = [
            TrialResult(
                trial=i + 1,
                seed=42 + i,
                status=DEGENERATE if score == 50 else OK,
                reason="predicts one label only" if score == 50 else None,
                metrics={"rte/dev": {"accuracy": score, "loss": 0.7}},
                main={"rte/dev": "accuracy"},
            )
            for i, score in enumerate(scores)
        ]
        results_dir = output_dir / "rte" / start / "results"
        write_results(
            trials, model_name="tiny", tasks_label="rte", results_dir=str(results_dir)
        )


def _run(output_dir: pathlib.Path, *more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.pretraining_helps",
            f"--data_dir={output_dir / 'data'}",
            "--model_name=tiny",
            "--tasks=rte",
            f"--output_dir={output_dir}",
            *more,
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def test_results_that_are_there_are_compared_without_training(tmp_path):
    _write_results(tmp_path)
    ran = _run(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "2 runs, 2 of them have results" in ran.stdout
    # Medians, the degenerate trial included.
    p = scipy.stats.ttest_ind(*SCORES.values(), equal_var=False).pvalue
    assert f"| rte/dev | accuracy | 71.00 ± 2.65 | 60.00 ± 6.08 | +11.00 | {p:.2g} |" in (
        ran.stdout
    )
    assert "- rte/dev, random: seed 43: degenerate" in ran.stdout
    (one,) = json.loads((tmp_path / "pretraining_helps.json").read_text())["comparisons"]
    assert one["pretrained"]["values"] == SCORES["pretrained"]
    assert one["p"] == pytest.approx(p)


def test_results_of_other_flags_are_refused(tmp_path):
    _write_results(tmp_path)
    (tmp_path / "rte" / "random" / "flags.txt").write_text("--learning_rate=1\n")
    ran = _run(tmp_path)
    assert ran.returncode == 1
    assert "was made with other flags: choose another --output_dir" in ran.stderr
    assert not (tmp_path / "pretraining_helps.json").exists()
