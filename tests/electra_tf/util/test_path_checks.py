"""Paths and names that are empty, or lead elsewhere, are refused."""

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_model_name, check_plain_name, local_path


@pytest.mark.parametrize("name", ["/absolute", "../other", "a/../../b"])
def test_names_of_models_that_leave_their_folder_are_refused(name):
    with pytest.raises(UserError, match=rf"--model_name={name} points outside .*--model_dir"):
        check_model_name(name)
    check_model_name("group/run..2")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0", None])
def test_names_in_files_that_are_no_component_of_a_path_are_refused(name):
    with pytest.raises(UserError, match=r"index\.json names the file .* without folders"):
        check_plain_name(name, "file", "index.json")
    check_plain_name("model..bin", "file", "index.json")


def test_paths_that_are_empty_or_remote_are_refused():
    with pytest.raises(UserError, match="--input is empty: pass a path"):
        local_path("", "--input")
    with pytest.raises(UserError, match="--input: gs://bucket is on a remote file system"):
        local_path("gs://bucket", "--input")
