"""Labels and settings of fine-tuned heads in the folders of transformers."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.run import load_servable
from electra_tf.interop.model_checkpoint import ModelCheckpoint
from electra_tf.util.errors import UserError
from finetune.export import FINETUNED
from tests.electra_tf.interop.huggingface.test_format import HUGGINGFACE, finetuned
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    format_of,
    own_hyperparameters,
    read,
)


def copied(tmp_path: pathlib.Path, name: str, **changes: Any) -> pathlib.Path:
    """Returns a copy of a folder of test data; a change of None removes the entry."""
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / name, folder)
    change_config(folder, **changes)
    return folder


def change_config(folder: pathlib.Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    kept = {name: value for name, value in config.items() if changes.get(name, "") is not None}
    (folder / "config.json").write_text(json.dumps(kept))


def set_outputs(folder: pathlib.Path, units: int) -> None:
    """Gives the head of a folder another number of outputs."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    tensors["classifier.weight"] = np.ones((units, 16), np.float32)
    tensors["classifier.bias"] = np.zeros(units, np.float32)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("kind", ["classification", "tagging", "multiple_choice", "qa"])
def test_layers_without_a_counterpart_are_not_left_out(kind, tmp_path):
    layers = {"dense": (16, 1), "dense_1": (16, 1)} if kind == "qa" else None
    units = 1 if kind == "multiple_choice" else 2
    checkpoint = finetuned(kind, units=units, layers=layers)
    (task,) = checkpoint.description.tasks
    lstm = {f"task_specific/{task.name}/lstm/kernel": np.ones((16, 64), np.float32)}
    checkpoint = dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, **lstm})
    with pytest.raises(UserError, match=f"has lstm/kernel, for which .* of {kind} tasks"):
        HUGGINGFACE.write(checkpoint, str(tmp_path / "model"))


def test_two_labels_that_transformers_leaves_out_have_its_names(tmp_path):
    folder = copied(tmp_path, "token_classification", id2label=None, label2id=None)
    set_outputs(folder, 2)
    checkpoint = read(folder, "huggingface")
    assert checkpoint.description.tasks[0].labels == ("LABEL_0", "LABEL_1")
    assert own_hyperparameters(checkpoint)["tasks"]["names"]["labels"] == ["LABEL_0", "LABEL_1"]

    HUGGINGFACE.write(finetuned("classification", units=2), str(tmp_path / "texts"))
    change_config(tmp_path / "texts", id2label=None, label2id=None)
    checkpoint = read(tmp_path / "texts", "huggingface")
    assert checkpoint.description.tasks[0].labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize("kind", ["tagging", "classification", "multilabel"])
def test_another_number_of_labels_than_outputs_is_refused(tmp_path, kind):
    HUGGINGFACE.write(finetuned(kind, units=3), str(tmp_path))
    change_config(tmp_path, id2label={"0": "a", "1": "b"})
    with pytest.raises(UserError, match="id2label has 2 labels, but the head has 3 outputs"):
        read(tmp_path, "huggingface")


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        (("O", "B-X", "I-X"), "span"),
        (("B-X", "E-X", "I-X", "O", "S-X"), "span"),
        (("O", "I-X", "I-Y"), "span"),
        (("O", "B-X", "LABEL_2"), "token"),
        (("NOUN", "VERB", "B-"), "token"),
    ],
)
def test_tags_of_spans_alone_make_a_task_of_spans(tmp_path, labels, level):
    id2label = {str(i): label for i, label in enumerate(labels)}
    folder = copied(tmp_path, "token_classification", id2label=id2label, label2id=None)
    set_outputs(folder, len(labels))
    described = own_hyperparameters(read(folder, "huggingface"))["tasks"]["names"]
    assert described == {"kind": "tagging", "labels": list(labels), "level": level}


def test_the_segment_of_tagging_is_reported_both_ways(tmp_path):
    (note,) = HUGGINGFACE.write(finetuned("tagging"), str(tmp_path))
    assert "pass token_type_ids of 1" in note
    assert "tagging here gives tokens segment 1" in read(tmp_path, "huggingface").notes[0]


SETTINGS = {
    "classification": {"has_pairs": True},
    "multilabel": {"has_pairs": True},
    "regression": {"has_pairs": True, "min_label": -1.0, "max_label": 5.5},
    "tagging": {"level": "token"},
    "qa": {"v2": True},
    "multiple_choice": {"has_question": True},
}
LENGTH = {"max_seq_length": 12}
# Hyperparameters of the run that answers depend on, none as by default.
OF_RUN = {
    "classification": {
        **LENGTH,
        "long_text": "windows",
        "window_stride": 3,
        "window_pooling": "max",
    },
    "qa": {
        **LENGTH,
        "max_query_length": 5,
        "doc_stride": 4,
        "n_best_size": 3,
        "max_answer_length": 2,
        "beam_size": 6,
        "qa_na_threshold": 1.5,
    },
}


def with_settings(kind: str, **settings: Any) -> ModelCheckpoint:
    units = 1 if kind in ("regression", "multiple_choice") else 3
    layers = {"dense": (16, 1), "dense_1": (16, 1)} if kind == "qa" else None
    checkpoint = finetuned(kind, units=units, layers=layers)
    (task,) = checkpoint.description.tasks
    labels = {"tagging": ("B-X", "I-X", "O"), "multiple_choice": ("A", "B")}
    task = dataclasses.replace(task, settings=settings, labels=labels.get(kind, task.labels))
    described = dataclasses.replace(checkpoint.description, tasks=(task,))
    return dataclasses.replace(checkpoint, description=described)


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_of_a_task_survive_a_round_trip(kind, tmp_path):
    of_run = OF_RUN.get(kind, LENGTH)
    before = with_settings(kind, **SETTINGS[kind], **of_run)
    format_of("electra_tf").write(before, str(tmp_path / "ours"))
    ours = read(tmp_path / "ours", "electra_tf")
    assert ours.description.tasks == before.description.tasks
    format_of("tf1").write(ours, str(tmp_path / "tf1"))
    authors = read(tmp_path / "tf1", "tf1")
    assert authors.description.tasks == before.description.tasks
    HUGGINGFACE.write(authors, str(tmp_path / "there"))
    after = read(tmp_path / "there", "huggingface")
    assert after.description.tasks == before.description.tasks
    assert not any(" assumed" in note for note in after.notes)
    hyperparameters = own_hyperparameters(after)
    assert hyperparameters.items() >= of_run.items()
    described = hyperparameters["tasks"]["mine"]
    assert described.items() >= {"kind": kind, **SETTINGS[kind]}.items()
    assert not described.keys() & of_run.keys()


@pytest.mark.parametrize("kind", SETTINGS)
def test_transformers_truncates_at_the_length_of_the_task(kind, tmp_path):
    """Its pre-training, or its position embeddings, may be longer."""
    for length in (12, None):
        settings = {"max_seq_length": length} if length else {}
        HUGGINGFACE.write(with_settings(kind, **settings), str(tmp_path))
        tokenizer = json.loads((tmp_path / "tokenizer_config.json").read_text())
        assert tokenizer["model_max_length"] == (length or 16)


def test_windows_over_long_texts_are_reported(tmp_path):
    windows = {"max_seq_length": 16, "long_text": "windows", "window_pooling": "max"}
    (note,) = HUGGINGFACE.write(with_settings("classification", **windows), str(tmp_path))
    assert note == (
        "task_specific/mine: texts longer than 16 tokens are divided into windows "
        "(long_text=windows), 8 tokens apart, with the max of their logits; transformers "
        "truncates them, or takes them as a whole"
    )
    assert HUGGINGFACE.write(with_settings("classification", **LENGTH), str(tmp_path)) == []


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_that_transformers_does_not_record_are_reported(kind, tmp_path):
    HUGGINGFACE.write(with_settings(kind), str(tmp_path))
    notes = read(tmp_path, "huggingface").notes
    assert any(" assumed" in note for note in notes) == (kind != "tagging")
    assert notes[-1].startswith("task_specific/mine: its sequence length in training is unkno")


@pytest.mark.parametrize(
    "settings",
    [
        5,
        {"has_pairs": 1},
        {"pairs": True},
        {"has_pairs": None},
        {"labels": []},
        {"max_seq_length": 17},
        {"max_seq_length": True},
        {"doc_stride": 4},
        {"long_text": "window"},
        {"window_stride": 3},
    ],
)
def test_settings_of_another_type_are_refused(settings, tmp_path):
    HUGGINGFACE.write(with_settings("classification"), str(tmp_path))
    change_config(tmp_path, electra_tf=settings)
    with pytest.raises(UserError, match=r"config\.json"):
        own_hyperparameters(read(tmp_path, "huggingface"))


@pytest.mark.parametrize("kind", sorted(SETTINGS.keys() - {"qa"}))
def test_a_converted_model_can_be_exported(kind, tmp_path):
    """At the length that such a task has by default, or that of the position embeddings."""
    before = with_settings(kind, **SETTINGS[kind])
    HUGGINGFACE.write(before, str(tmp_path / "there"))
    after = read(tmp_path / "there", "huggingface")
    format_of("electra_tf").write(after, str(tmp_path / "ours"))
    config = ExportConfig(model_dir=str(tmp_path / "ours"), export_dir=tmp_path / "exported")
    servable = load_servable(config, [FINETUNED], lambda message: None)
    assert servable.task.description.items() >= {"kind": kind, **SETTINGS[kind]}.items()
    assert servable.max_seq_length == 16


@pytest.mark.parametrize(
    ("kind", "positions", "length"),
    [("qa", 512, 512), ("qa", 400, 400), ("classification", 512, 128), ("tagging", 100, 100)],
)
def test_a_converted_model_is_served_at_the_length_of_its_task(kind, positions, length):
    checkpoint = with_settings(kind)
    encoder = dataclasses.replace(
        checkpoint.description.encoder, max_position_embeddings=positions
    )
    longer = dataclasses.replace(checkpoint.description, encoder=encoder)
    settings = own_hyperparameters(dataclasses.replace(checkpoint, description=longer))
    assert settings["max_seq_length"] == length
    for trained in (64, 300):
        known = dataclasses.replace(longer, trained_positions=trained)
        settings = own_hyperparameters(dataclasses.replace(checkpoint, description=known))
        assert settings["max_seq_length"] == min(length, trained)
