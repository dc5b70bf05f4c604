"""The file of the worst errors of a trial."""

import json

import pytest

from electra_tf.util.errors import UserError
from finetune.results.worst_errors import (
    MAX_ERRORS,
    PredictionError,
    read_errors,
    write_errors,
)


def test_the_errors_of_the_highest_loss_are_kept(tmp_path):
    errors = [PredictionError("x" * 2000, "a", "b", float(i)) for i in range(50)]
    path = tmp_path / "t_dev_1_errors.json"
    write_errors(path, errors)
    total, worst = read_errors(path)
    assert total == 50
    assert [error.loss for error in worst] == [float(i) for i in range(49, 49 - MAX_ERRORS, -1)]
    assert worst[0] == ("x" * 1000, "a", "b", 49.0)
    damaged = PredictionError("x", "a", ["b"], "high")._asdict()
    for content in ({"errors": [{}]}, {"total": 1, "errors": [damaged]}):
        path.write_text(json.dumps(content))
        with pytest.raises(UserError, match=r"errors\.json is not a file of errors"):
            read_errors(path)
