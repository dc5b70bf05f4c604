"""Examples that are trained on and scored."""

import numpy as np
import pytest

from finetune.data.repeated import count_repeated, describe_repeated


def row(*ids: int, **more) -> dict:
    return {"input_ids": np.array(ids), "segment_ids": np.zeros(len(ids)), **more}


def test_rows_are_compared_by_their_tokens():
    train = [row(1, 2, label=0), row(3), row(1, **{"input_ids/1": np.array([2])})]
    assert count_repeated([row(1, 2, label=1), row(2, 1), row(1), row(3), row(3)], train) == 3
    # Choices are no longer text.
    choices = row(1, **{"input_ids/1": np.array([2])})
    other = row(1, **{"input_ids/1": np.array([2, 2])})
    assert count_repeated([choices, other], train) == 1
    # Ids come as integers of any size from files and caches.
    assert count_repeated([row(np.int64(3))], [row(np.int32(3))]) == 1


@pytest.mark.parametrize(("count", "printed", "warned"), [(0, 0, 0), (5, 1, 0), (6, 0, 1)])
def test_few_are_printed_and_many_warned_of(count, printed, warned, capsys):
    rows = [row(i) for i in range(100)]
    train = [row(i) for i in range(count)] or [row(1000)]
    lines = []
    describe_repeated(f"cola dev {count}", rows, train, lines.append)
    assert len(lines) == printed
    error = capsys.readouterr().err
    assert error.count("warning: cola dev") == warned
    for text in [*lines, *([error] if warned else [])]:
        assert f"{count} of 100 rows have the text of one of train" in text
