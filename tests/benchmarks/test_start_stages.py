"""The benchmark of the time to the first step: a start of a tiny model, and one that fails."""

import pytest

from benchmarks.start_stages import HERE, STAGES, time_start
from electra_tf.util.errors import UserError
from tests.conftest import tiny_settings


def test_a_start_has_all_stages(tiny_data, tmp_path):
    # Its random rows need more words.
    settings = tiny_settings(tiny_data, tmp_path) | {"vocab_size": 1100}
    seconds = time_start(HERE, settings)
    assert len(seconds) == len(STAGES)
    first, second = seconds[2:]
    assert first > second > 0


def test_a_start_that_fails_says_why():
    with pytest.raises(UserError, match="--data_dir is required"):
        time_start(HERE, {})
