"""Files of a task of one's own: those that are missing, and those in another order."""

import json
import types

import pytest

from electra_tf.util.errors import UserError
from finetune.config.task_spec_parser import load_specs
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


def test_columns_by_index_that_have_other_names_are_warned_of(tmp_path, capsys):
    paths = [tmp_path / name for name in ("train.tsv", "dev.tsv", "new.tsv")]
    for path, header in zip(
        paths, ("text\tlabel", "text\tlabel", "a line\tof text"), strict=True
    ):
        path.write_text(f"{header}\nw1\t0\nw2\t1\n")
    spec = {"name": "mine", "kind": "classification", "files": {"train": str(paths[0])}}
    config = types.SimpleNamespace(raw_data_dir="", predict_file=None, num_folds=None)

    def read(columns: dict, path) -> str:
        own = TaskFiles(load_specs(json.dumps({**spec, "columns": columns}))[0], config)
        for each in (paths[0], path):
            assert len(own.records(str(each), ["text_a"])) == 2
        return capsys.readouterr().err

    by_index = {"text": 0, "label": 1}
    assert read(by_index, paths[1]) == ""
    warning = (
        f'{paths[2]}: line 1 names column 0 (text_a) "a line", but in {paths[0]} it is "text"'
    )
    assert warning in read(by_index, paths[2])


@pytest.mark.parametrize(("header", "text", "refused"), [(False, -2, True), (False, 1, False)])
def test_columns_counted_from_the_end_are_those_of_files_of_one_width(
    tmp_path, header, text, refused
):
    train, new = tmp_path / "train.tsv", tmp_path / "new.tsv"
    train.write_text("1\tw1\t0\n2\tw2\t1\n")
    new.write_text("1\tw1\n2\tw2\n")
    spec = {"name": "mine", "kind": "classification", "files": {"train": str(train)}}
    spec |= {"columns": {"text": text, "label": -1}, "header": header}
    config = types.SimpleNamespace(raw_data_dir="", predict_file=None, num_folds=None)
    own = TaskFiles(load_specs(json.dumps(spec))[0], config)
    own.records(str(train), ["text_a", "label"])
    if refused:
        with pytest.raises(UserError, match=f"{new} has 2 columns, but {train} has 3.*-2"):
            own.records(str(new), ["text_a"])
    else:
        assert [r.values["text_a"] for r in own.records(str(new), ["text_a"])] == ["w1", "w2"]
