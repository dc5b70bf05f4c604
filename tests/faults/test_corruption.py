"""Damaged files: each is noticed, with its name, or changes nothing.

`make soak` damages more of them. FAULTS_SEED chooses others; a failure names its seed.
"""

import json
import os

from tests.faults.corruption import CRASH, VIOLATIONS, Trial, read_trials, run_trials

TRIALS = 128


def test_no_damage_passes_unnoticed(tmp_path):
    seed = int(os.environ.get("FAULTS_SEED", "1"))
    trials = run_trials(tmp_path / "trials.jsonl", seed, TRIALS)
    assert len(trials) == TRIALS
    assert [trial for trial in trials if trial.outcome in VIOLATIONS] == []
    assert {trial.target for trial in trials} >= {"checkpoint", "export", "records"}


def test_a_trial_that_ends_the_process_is_told(tmp_path):
    figures = tmp_path / "trials.jsonl"
    ended = Trial(0, "checkpoint", "f", "cut", CRASH, "seed 1")
    figures.write_text(json.dumps(ended._asdict()) + "\n")
    (told, other) = run_trials(figures, 1, 2, "--target=vocabulary with a description")
    assert told == ended
    assert other.outcome not in VIOLATIONS
    assert read_trials(figures) == [told, other]
