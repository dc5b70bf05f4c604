"""Files of a task of one's own: those that are missing."""

import types

import pytest

from electra_tf.util.errors import UserError
from finetune.tasks.base import PREDICT
from finetune.tasks.custom_files import TaskFiles


def files(tmp_path, **more) -> TaskFiles:
    def path(split: str, folder: str) -> str:
        raise UserError(f"{split}: no such file")

    spec = types.SimpleNamespace(
        files={"train": "a.tsv"}, held_out_fraction=0.0, spec_file="task.json", path=path
    )
    config = types.SimpleNamespace(
        **{"raw_data_dir": str(tmp_path), "predict_file": None, "num_folds": None, **more}
    )
    return TaskFiles(spec, config)


def test_a_missing_file_to_predict_names_its_flag(tmp_path):
    missing = str(tmp_path / "new.tsv")
    with pytest.raises(UserError, match=f"^--predict_file={missing}: no such file$"):
        files(tmp_path, predict_file=missing).path(PREDICT)


def test_a_missing_file_is_told_of_where_it_is_read(tmp_path):
    assert files(tmp_path).fingerprint_files("train") == ["task.json"]
    with pytest.raises(UserError, match="train: no such file"):
        files(tmp_path).path("train")
