"""Labels and settings of fine-tuned heads in the folders of transformers."""

import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import HUGGINGFACE, finetuned
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, own_hyperparameters, read


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
    (note,) = read(tmp_path, "huggingface").notes
    assert "tagging here gives tokens segment 1" in note
