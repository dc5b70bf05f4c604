"""Calibration errors, temperatures and their pictures."""

import json
import math
import tracemalloc

import numpy as np
import pytest

from finetune.results import calibration
from finetune.results.calibration import calibrate, fit_temperature, reliability
from finetune.results.plots.reliability_diagram import plot_reliability

LABELS = np.array([0, 0, 1, 1])


def logits_of(*probabilities):
    """Returns logits of two classes; probabilities are those of the first."""
    p = np.array(probabilities)
    return np.log(np.stack([p, 1 - p], axis=1))


def test_the_error_is_the_mean_gap_of_fifteen_bins():
    # Two in bin 14, one of which is right, 0.6 at the end of bin 9, and 0.7 in bin 11.
    with np.errstate(all="raise"):
        found = reliability(logits_of(0.9, 0.91, 0.6, 0.3), np.array([1, 0, 1, 1]))
    assert found.counts.tolist() == [0] * 8 + [1, 0, 1, 0, 0, 2, 0]
    assert found.confidences[[8, 10, 13]] == pytest.approx([0.6, 0.7, 0.905])
    assert found.accuracies[[8, 10, 13]] == pytest.approx([0, 1, 0.5])
    assert np.isnan(found.accuracies[0])
    assert found.error == pytest.approx((0.6 + 0.3 + 2 * 0.405) / 4)


def test_a_certain_prediction_is_in_the_last_bin():
    found = reliability(np.array([[800.0, 0.0], [0.0, 5.0]]), np.array([0, 1]))
    assert found.counts.tolist() == [0] * 14 + [2]


def test_the_temperature_is_that_of_the_lowest_cross_entropy():
    # Three of four are right with the odds 9: scaled odds of 3 are the shares.
    logits = logits_of(0.9, 0.9, 0.1, 0.9)
    assert fit_temperature(logits, LABELS) == pytest.approx(math.log(9) / math.log(3), rel=1e-4)
    assert fit_temperature(7 * logits, LABELS) == pytest.approx(14, rel=1e-4)
    # Up to the ends of what is searched.
    for factor in (0.0051, 49.75):
        found = fit_temperature(factor * logits, LABELS)
        assert found == pytest.approx(2 * factor, rel=1e-4)
    unscaled = calibrate(logits, LABELS, 1.0, "dev").metrics
    assert unscaled["scaled_ece"] == unscaled["ece"] > 0
    found = calibrate(logits, LABELS, 2.0, "dev")
    assert found.metrics == pytest.approx({"ece": 15, "scaled_ece": 0, "temperature": 2})


def test_many_classes_are_computed_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 400, 1000)
    logits = rng.normal(size=(1000, 400))
    logits[np.arange(1000), labels] += rng.normal(size=1000) + 3

    def results():
        temperature = fit_temperature(logits, labels)
        found = calibrate(logits, labels, temperature, "dev")
        return found.metrics, found.reliability.counts.tolist()

    metrics, counts = results()
    monkeypatch.setattr(calibration, "_LOGITS_AT_ONCE", 7 * 400)
    tracemalloc.start()
    in_parts = results()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert in_parts == (pytest.approx(metrics, rel=1e-6), counts)
    assert len(metrics) == 3
    # A copy of all logits would be as large as they are.
    assert peak < logits.nbytes / 4


@pytest.mark.parametrize("p", [(0.9, 0.6, 0.4, 0.2), (0.1, 0.4, 0.7, 0.8)])
def test_there_is_no_temperature_of_predictions_all_right_or_all_wrong(p, tmp_path):
    temperature = fit_temperature(logits_of(*p), LABELS)
    assert math.isnan(temperature)
    found = calibrate(logits_of(*p), LABELS, temperature, "dev")
    assert list(found.metrics) == ["ece"]
    plot_reliability(tmp_path / "a.png", found, "cola dev, trial 1")


def test_there_is_no_temperature_of_classes_that_are_all_alike():
    logits, labels = np.full([4, 3], 2.5), np.array([0, 1, 2, 0])
    assert math.isnan(fit_temperature(logits, labels))
    logits[[0, 3], 2] = np.finfo(np.float32).min  # examples of two choices
    assert math.isnan(fit_temperature(logits, labels))
    logits[0, 0], logits[3, 1] = 3.0, 2.6  # right, and wrong by less
    assert math.isfinite(fit_temperature(logits, labels))


def test_files(tmp_path):
    found = calibrate(logits_of(0.9, 0.9, 0.1, 0.9), LABELS, 2.0, "dev")
    found.write(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["temperature"] == 2
    assert content["fitted_on"] == "dev"
    assert content["bins"]["as_predicted"]["counts"][13] == 4
    assert content["bins"]["scaled"]["accuracies"][0] is None
    plot_reliability(tmp_path / "a.png", found, "title")
    first = (tmp_path / "a.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    plot_reliability(
        tmp_path / "b.png",
        calibrate(logits_of(0.6, 0.8, 0.2, 0.9), LABELS, 2.0, "dev"),
        "title",
    )
    assert (tmp_path / "b.png").read_bytes() != first
