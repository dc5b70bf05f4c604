"""What a run that predicts says about the weights and the splits it takes."""

import dataclasses
import json
import shutil
import types

import pytest

from electra_tf.util.console import discard
from electra_tf.util.errors import UserError
from finetune import prediction_files
from finetune.data.file_readers import read_records
from finetune.run import run


def test_trials_without_scores_predict_with_the_first_and_say_so(
    make_finetuning_config, tmp_path, capsys
):
    unlabeled = tmp_path / "new.tsv"
    unlabeled.write_text("index\tsentence\n0\tw1 w2\n1\tw20 w23\n")
    run(make_finetuning_config(num_trials=2, num_train_epochs=1), discard)
    predicts = {"do_train": False, "do_predict": True, "predict_file": str(unlabeled)}
    capsys.readouterr()
    run(make_finetuning_config(**predicts, num_trials=2), discard)
    assert "--do_eval=false" not in capsys.readouterr().err
    run(make_finetuning_config(**predicts, num_trials=2, do_eval=False), discard)
    expected = "--do_eval=false scores none of the 2 trials, so Trial 1 predicts"
    assert expected in capsys.readouterr().err


def test_predictions_of_an_earlier_model_are_told_of(make_finetuning_config, tmp_path, capsys):
    unlabeled = tmp_path / "new.tsv"
    unlabeled.write_text("index\tsentence\n0\tw1 w2\n1\tw20 w23\n")
    data = tmp_path / "data"
    shutil.copytree(make_finetuning_config().data_dir, data)

    def said(**changes) -> list[str]:
        capsys.readouterr()
        run(make_finetuning_config(data_dir=str(data), num_train_epochs=1, **changes), discard)
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if "is from an earlier run" in line]

    predicts = {"do_predict": True, "predict_file": str(unlabeled), "write_test_outputs": True}
    assert not said(**predicts)
    assert not said()  # of the same model
    results, tests = said(learning_rate=1e-4)
    # Of an ensemble and of trials that a run has no more.
    folder = tmp_path / "results" / "test_predictions"
    older = [folder / f"cola_test_{name}_predictions.jsonl" for name in (2, "ensemble")]
    for path in older:
        path.write_text("{}\n")
    (stale,) = said(**predicts, learning_rate=1e-3)
    assert stale.startswith(f"warning: {older[0]} is from")
    assert stale.endswith(": remove it")
    assert results.startswith(f"warning: {tmp_path}/results/cola_predictions.jsonl is from")
    assert "/test_predictions/cola_test_1_predictions.jsonl is from" in tests
    older[0].unlink()
    # The same model, but the ensemble may be of other trials.
    assert said(learning_rate=1e-3) == [
        f"warning: {older[1]} is from an earlier run, whose model may not be that of the "
        "current results: remove it, or predict again with --write_test_outputs"
    ]


def test_a_task_without_a_test_split_has_no_test_outputs(make_finetuning_config, tmp_path):
    rows = "".join(f"w{i % 30},{i % 2}\n" for i in range(40))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    config = make_finetuning_config(
        task_names=("mine",),
        own_task_kind="classification",
        own_task_files=f"train={tmp_path / 'train.csv'}",
        own_task_columns="text=text,label=label",
        write_test_outputs=True,
    )
    with pytest.raises(UserError, match="--write_test_outputs: mine has no test split"):
        run(config, discard)
    assert not (tmp_path / "model_1").exists()


def test_debug_keeps_away_from_real_predictions(make_finetuning_config):
    config = make_finetuning_config(debug=True, results_dir=None)
    folder = prediction_files.folder_of_test_predictions(config)
    assert folder == f"{config.pretrained_model_dir}/test_predictions-debug"


def test_runs_with_results_of_their_own_have_predictions_of_their_own(
    make_finetuning_config, tmp_path
):
    usual = make_finetuning_config(results_dir=None)
    folder = f"{usual.pretrained_model_dir}/test_predictions"
    assert prediction_files.folder_of_test_predictions(usual) == folder
    same = make_finetuning_config(results_dir=f"{usual.pretrained_model_dir}/results/")
    assert prediction_files.folder_of_test_predictions(same) == folder
    own = make_finetuning_config(results_dir=str(tmp_path / "b"))
    assert prediction_files.folder_of_test_predictions(own) == str(
        tmp_path / "b" / "test_predictions"
    )


def test_outputs_that_cannot_be_written_are_refused_before_training(
    make_finetuning_config, tmp_path
):
    file = tmp_path / "file.jsonl"
    file.touch()
    predicts = {"do_predict": True, "predict_file": str(file)}
    for settings, message in (
        ({"results_dir": f"{file}/results"}, f"--results_dir={file}/results cannot be written"),
        (
            {**predicts, "predict_output": f"{file}/o.tsv"},
            f"--predict_output={file}/o.tsv cann",
        ),
        ({"results_txt": f"{file}/o.txt"}, f"--results_txt={file}/o.txt cannot be written"),
        (
            {"write_test_outputs": True, "do_eval": False, "results_dir": f"{file}/r"},
            f"--write_test_outputs: {file}/r/test_predictions cannot be written",
        ),
    ):
        config = dataclasses.replace(make_finetuning_config(), **settings)
        with pytest.raises(UserError, match=f"^{message}.*Not a directory"):
            run(config, discard)
    with pytest.raises(UserError, match=f"^--results_dir={file}/r cannot be written"):
        run(make_finetuning_config(results_dir=f"{file}/r"), discard)
    assert not (tmp_path / "model_1").exists()


def test_files_of_a_task_are_never_overwritten(make_finetuning_config, tmp_path):
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    for path in (train, dev):
        path.write_text("text\tlabel\n" + "".join(f"w{i}\t{i % 2}\n" for i in range(9)))
    before = train.read_text()
    config = make_finetuning_config(
        task_names=("mine",),
        own_task_kind="classification",
        own_task_files=f"train={train},dev={dev}",
        do_predict=True,
        predict_file=str(dev),
    )
    for name, path in (("predict_output", train), ("results_txt", dev), ("results_pkl", train)):
        message = f"--{name}={path} is the file that task mine reads"
        with pytest.raises(UserError, match=message):
            run(dataclasses.replace(config, **{name: str(path)}), discard)
    assert train.read_text() == dev.read_text() == before


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_predictions_are_read_as_task_files_are(
    make_finetuning_config, tmp_path, monkeypatch, capsys, suffix
):
    predictions = [
        {"id": '"7"', "prediction": 'he said ""no""', "scores": {'a "b"': 0.25}},
        {"id": "8", "prediction": "one\ttwo\r\nthree\n", "scores": {"a\tb": 1.0}},
    ]
    task = types.SimpleNamespace(predictions=lambda *_: predictions)
    trainer = types.SimpleNamespace(predict=lambda *_: [], is_chief=True)
    monkeypatch.setattr(prediction_files, "_unlabeled", lambda *_: None)
    path = str(tmp_path / f"out.{suffix}")
    config = make_finetuning_config(predict_output=path)
    assert prediction_files.predict_file(config, trainer, task, None) == path
    columns = {name: name for name in predictions[0]}
    read = [r.values for r in read_records(path, file_format=suffix, columns=columns)]
    if suffix == "tsv":
        for record in read:
            record["scores"] = json.loads(record["scores"])
        predictions[1]["prediction"] = "one two three "
    assert read == predictions
    warned = "tabs and line breaks in 1 cells are written as spaces" in capsys.readouterr().err
    assert warned == (suffix == "tsv")
