"""Outputs that cannot be written are told of before the work."""

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_distinct, check_output_file


def test_output_files_that_cannot_be_written_are_told_of_beforehand(tmp_path):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path, "is a folder"),
        (tmp_path / "file/deep/output", f"cannot be written: {tmp_path}/file: Not a directory"),
        ("/proc/none/output", "cannot be written: /proc: "),
    ):
        with pytest.raises(UserError, match=f"^--output={path} {problem}"):
            check_output_file(path, "--output")
    for path in (tmp_path / "file", tmp_path / "new/deep/output", "/dev/null", "/dev/stdout"):
        check_output_file(path, "--output")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_outputs_of_one_file_are_refused(tmp_path):
    path = tmp_path / "new"
    check_distinct({"--a": path, "--b": tmp_path / "other", "--c": None, "--d": None})
    check_distinct({"--a": "/dev/null", "--b": "/dev/null"})
    with pytest.raises(UserError, match=r"^--b=.*/\./new is the file of --a, too"):
        check_distinct({"--a": path, "--b": f"{tmp_path}/./new"})
