"""Files and patterns in folders whose names look like patterns."""

import pathlib

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import split_patterns
from pretrain_data.records.files import find_record_files


@pytest.fixture(name="files")
def _files(tmp_path: pathlib.Path) -> list[str]:
    """Records in folders with a comma, brackets and a star, beside one they could match."""
    names = ["a, b/x-0", "v[1]/x-0", "v1/x-0", "s*r/x-0", "star/x-0", "plain/x[0]", "plain/x0"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return [str(tmp_path / name) for name in names]


@pytest.mark.parametrize("folder", ["a, b", "v[1]", "v1", "s*r"])
def test_the_name_of_a_folder_means_itself(
    tmp_path: pathlib.Path, files: list[str], folder: str
) -> None:
    found = find_record_files(str(tmp_path / folder / "x-*"))
    assert found == [str(tmp_path / folder / "x-0")]


def test_the_name_of_a_file_means_itself(tmp_path: pathlib.Path, files: list[str]) -> None:
    assert find_record_files(str(tmp_path / "plain/x[0]")) == [str(tmp_path / "plain/x[0]")]
    assert find_record_files(str(tmp_path / "plain/x[01]")) == [str(tmp_path / "plain/x0")]


def test_a_manifest_is_no_record_file(tmp_path: pathlib.Path, files: list[str]) -> None:
    (tmp_path / "v1/pretrain_data.json").touch()
    assert find_record_files(str(tmp_path / "v1/*")) == [str(tmp_path / "v1/x-0")]


def test_patterns_of_folders_that_do_not_exist_match(
    tmp_path: pathlib.Path, files: list[str]
) -> None:
    found = find_record_files(str(tmp_path / "v[12]/x-*"))
    assert found == [str(tmp_path / "v1/x-0")]


def test_commas_separate_patterns_but_not_in_the_name_of_a_folder(
    tmp_path: pathlib.Path, files: list[str]
) -> None:
    first, second = f"{tmp_path}/a, b/x*", f"{tmp_path}/v1/x*"
    assert split_patterns(f"{first}, {second},,{first}") == [first, second, first]
    assert split_patterns(f"{second},{first}") == [second, first]
    assert split_patterns("a,b , c/d") == ["a", "b", "c/d"]
    assert find_record_files(f"{first},{second}") == [files[0], files[2]]


def test_a_pattern_without_files_is_named(tmp_path: pathlib.Path, files: list[str]) -> None:
    with pytest.raises(UserError, match=r"No file matches '.*a, b/y\*'"):
        find_record_files(f"{tmp_path}/a, b/y*")
