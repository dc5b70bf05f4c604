"""N-best lists of any content."""

import json
import math

import pytest
from hypothesis import strategies as st

from electra_tf.inference.scoring.nbest import read_nbest_lists
from electra_tf.util.errors import UserError
from tests.fuzz.inputs import json_values, outcome, texts, tries

hypotheses = st.lists(
    texts
    | st.fixed_dictionaries({"text": texts}, optional={"score": st.floats() | json_values})
    | json_values,
    max_size=3,
)
lists = st.fixed_dictionaries(
    {"hypotheses": hypotheses | json_values},
    optional={"id": json_values, "reference": texts | json_values},
)


@tries(200, given=lists | json_values)
def test_lists(tmp_path_factory, given):
    path = tmp_path_factory.getbasetemp() / "lists.jsonl"
    path.write_text(json.dumps(given))
    result = outcome(read_nbest_lists, path, "--nbest_file")
    if isinstance(result, UserError):
        assert f"--nbest_file={path}" in str(result)
        return
    (found,) = result
    assert len(found.hypotheses) == len(given["hypotheses"])
    for hypothesis in found.hypotheses:
        hypothesis.text.encode()
        assert math.isfinite(hypothesis.score)


@pytest.mark.parametrize(
    "line",
    [
        '{"hypotheses": "abc"}',
        '{"hypotheses": [{"text": "a", "score": NaN}]}',
        '{"hypotheses": [{"text": "a", "score": 1e400}]}',
        '{"hypotheses": [{"text": "a", "score": true}]}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_what_was_taken_for_a_list(tmp_path, line):
    path = tmp_path / "lists.jsonl"
    path.write_text(line)
    assert isinstance(outcome(read_nbest_lists, path, "--nbest_file"), UserError)
