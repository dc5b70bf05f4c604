"""What the scores of a trial depend on, and whether trials share it."""

import re

import pytest

from electra_tf.util.errors import UserError
from finetune.results.provenance import (
    TRAINING_AND_EVALUATION,
    Provenance,
    common_provenance,
    scored_settings_digest,
)

SCORED = dict.fromkeys(TRAINING_AND_EVALUATION)
FIRST = Provenance("a" * 64, "b" * 64, "c" * 64, "e" * 64)


def test_trials_of_one_provenance_are_aggregated():
    assert common_provenance(None, FIRST) == FIRST
    assert common_provenance(FIRST, FIRST) == FIRST


def test_a_checkpoint_that_one_trial_does_not_record_is_unknown():
    unknown = FIRST._replace(pretrained_checkpoint=None)
    assert common_provenance(FIRST, unknown) == unknown
    assert common_provenance(unknown, FIRST) == unknown


@pytest.mark.parametrize("name", Provenance._fields)
def test_trials_that_differ_are_refused_with_both_hashes(name):
    other = FIRST._replace(**{name: "d" * 64})
    expected = f"Before: {FIRST.describe()}. Now: {other.describe()}"
    with pytest.raises(UserError, match=re.escape(expected)):
        common_provenance(FIRST, other)


def test_other_columns_than_in_training_have_another_digest():
    trained = {
        "own_task_columns": "text=a,label=b",
        "own_task_files": "train=x",
        "model_name": "m",
    }
    same = scored_settings_digest({**SCORED, **trained}, None)
    moved = {**SCORED, **trained, "own_task_files": "train=y"}
    swapped = {**SCORED, **trained, "own_task_columns": "text=b,label=a"}
    assert scored_settings_digest(moved, trained) == same
    assert scored_settings_digest(swapped, trained) != same


def test_other_tokens_than_in_training_have_another_digest():
    trained = {"do_lower_case": False, "strip_accents": True}
    same = scored_settings_digest({**SCORED, **trained}, None)
    assert scored_settings_digest({**SCORED, **trained}, trained) == same
    no_case = {**SCORED, **trained, "strip_accents": False}
    assert scored_settings_digest(no_case, trained) == same  # it has no effect
    assert scored_settings_digest({**SCORED, "do_lower_case": True}, trained) != same
