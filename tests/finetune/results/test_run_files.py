"""The files that a run leaves in its results folder."""

import pytest

from finetune.results import run_files
from finetune.results.summary import TrialResult


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ({"rte/dev": "accuracy", "rte/dev_other": "accuracy"}, ["rte_accuracy"]),
        ({"cola/dev": "mcc", "squad/dev": "f1"}, ["cola_mcc", "squad_f1"]),
        ({"own/part/held_out": "macro_f1"}, ["own/part_macro_f1"]),
        ({}, None),
    ],
)
def test_learning_curves_are_of_the_main_metrics(
    make_finetuning_config, monkeypatch, main, expected
):
    drawn = []

    def plot(path, records, title, *, metrics, dev_loss):
        assert dev_loss == "cola_loss"
        drawn.append(metrics)

    monkeypatch.setattr(run_files, "plot_learning_curves", plot)
    metrics = {key: {name: 50.0, "total": 7.0, "loss": 1.0} for key, name in main.items()}
    results = [
        TrialResult(trial=1, seed=42, status="diverged"),
        TrialResult(trial=2, seed=43, metrics=metrics, main=main),
    ]
    records = [{"kind": "eval", "step": 1, "cola_mcc": 50.0}]
    paths = run_files.write_run_files(make_finetuning_config(), results, records)
    assert paths[-1].endswith("_learning_curves.png")
    assert drawn == [expected]
