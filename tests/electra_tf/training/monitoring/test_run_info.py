"""What a run records of its machine, and says when it resumes on another."""

import os

from electra_tf.training.monitoring.run_info import describe_other_parts, write_run_info


def test_another_number_of_parts_of_a_batch_is_told(tmp_path):
    folder = os.fspath(tmp_path)
    assert describe_other_parts(folder, 4) == []  # a new run
    write_run_info(folder, [], {})
    assert describe_other_parts(folder, 4) == []  # of an older version
    write_run_info(folder, [], {}, num_parts=2)
    assert describe_other_parts(folder, 2) == []
    (line,) = describe_other_parts(folder, 4)
    assert "a batch is divided into 4 parts, before into 2" in line
