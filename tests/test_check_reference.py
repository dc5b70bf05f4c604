"""The command line of the reference check: lines, summary, status and missing files."""

import pathlib
import shutil

import pytest

from tests import check_reference
from tests.reference.result import CheckResult

ROOT = pathlib.Path(__file__).parents[1]
REFERENCE_DIR = ROOT / "tests/data/reference/pretraining"
# The whole set, with text that may not be shipped; it lies beside the repository or nowhere.
WHOLE_SETS = [ROOT.parent / "shared/reference" / n for n in ("pretraining", "finetuning")]


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 1)])
def test_status_and_summary(monkeypatch, capsys, passed, status):
    results = [
        CheckResult("first", True, "3 compared"),
        CheckResult("second", passed, "detail"),
        CheckResult("third", True, "reason", skipped=True),
    ]
    monkeypatch.setattr(check_reference, "run_checks", lambda *_: iter(results))
    assert check_reference.main(["--reference_dir", str(REFERENCE_DIR)]) == status
    lines = capsys.readouterr().out.splitlines()
    word = "PASS" if passed else "FAIL"
    assert lines[:3] == [
        "PASS first: 3 compared",
        f"{word} second: detail",
        "SKIP third: reason",
    ]
    assert lines[3].startswith(f"{1 + passed} passed, {1 - passed} failed, 1 skipped in ")


@pytest.mark.parametrize("whole_set", WHOLE_SETS, ids=lambda path: path.name)
def test_the_whole_set_agrees(whole_set, capsys):
    if not whole_set.exists():
        pytest.skip(f"needs the recorded numbers of the authors' code in {whole_set}")
    status = check_reference.main(["--reference_dir", str(whole_set)])
    assert status == 0, capsys.readouterr().out


def test_the_small_set_is_whole():
    result = check_reference.check_files(REFERENCE_DIR)
    assert result.passed, result.detail


@pytest.mark.parametrize(
    "name",
    [
        "helpers.npz",
        "forward_config.json",
        "forward_temperature.npz",
        "ckpt_tied_all.data-00000-of-00001",
        "corpus.txt",
        "pretrain_data-1-of-3.tfrecord",
    ],
)
def test_a_missing_file_is_named(tmp_path, name):
    copy = pathlib.Path(shutil.copytree(REFERENCE_DIR, tmp_path / "set"))
    (copy / name).unlink()
    result = check_reference.check_files(copy)
    assert not result.passed
    assert result.detail == f"missing: {name}"


def test_files_that_no_check_reads_are_named(tmp_path):
    assert list(check_reference.other_files(REFERENCE_DIR)) == []
    copy = pathlib.Path(shutil.copytree(REFERENCE_DIR, tmp_path / "set"))
    shutil.copy(copy / "forward_default.npz", copy / "forward_another.npz")
    (result,) = check_reference.other_files(copy)
    assert result.skipped
    assert result.detail == "forward_another.npz"


def test_an_empty_folder_fails_in_every_part(tmp_path, capsys):
    assert check_reference.main(["--reference_dir", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == [
        "FAIL files",
        "FAIL data",
        "FAIL helpers",
        "FAIL forward",
        "FAIL optimizer",
        "SKIP flops",  # not every set has them
    ]


def test_a_folder_that_does_not_exist_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        check_reference.main(["--reference_dir", str(tmp_path / "nowhere")])
    assert error.value.code == 2
    assert "nowhere does not exist" in capsys.readouterr().err
