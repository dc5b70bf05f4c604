"""Outputs that cannot be written are told of before the work."""

import pytest

from electra_tf.config.saved_config import CONFIG_FILE
from electra_tf.interop.huggingface.weight_files import WEIGHTS_FILE
from electra_tf.interop.tf1_format import DESCRIPTION_FILE
from electra_tf.text.tokenizer_description import description_file
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import INDEX, MANIFEST, STATE_FILE
from electra_tf.training.monitoring.run_info import LOG_FILE, RUN_INFO_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_distinct, check_output_file
from pretrain_data.examples.shard_names import shard_name
from pretrain_data.records.manifest import FILE_NAME


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
    with pytest.raises(UserError, match=r"^--b=.*/\./new is also the file of --a"):
        check_distinct({"--a": path, "--b": f"{tmp_path}/./new"})


@pytest.mark.parametrize(
    "name",
    [
        DESCRIPTION_FILE,
        FILE_NAME,
        LOG_FILE,
        RUN_INFO_FILE,
        WEIGHTS_FILE,
        description_file(VOCAB_FILE).name,
        f"ckpt-20{INDEX}",
        f"ckpt-20{MANIFEST}",
        "ckpt-20.data-00000-of-00001",
        shard_name(1, 4),
    ],
)
def test_files_of_models_and_records_are_not_replaced(tmp_path, name):
    path = tmp_path / name
    check_output_file(path, "--json")
    path.touch()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    for each in (path, link):
        with pytest.raises(UserError, match=f"^--json={each} exists, and is a file of a model"):
            check_output_file(each, "--json")


@pytest.mark.parametrize("name", [CONFIG_FILE, STATE_FILE, VOCAB_FILE, "best.json"])
def test_files_with_usual_names_are_not_replaced_beside_a_model(tmp_path, name):
    path = tmp_path / name
    path.touch()
    for vocabulary in (VOCAB_FILE, "cased.txt"):
        description_file(tmp_path / vocabulary).touch()
    check_output_file(path, "--output-file")
    (tmp_path / f"ckpt-20{INDEX}").touch()
    with pytest.raises(UserError, match="is a file of a model"):
        check_output_file(path, "--output-file")
