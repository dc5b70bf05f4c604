"""What is known of the authors' fine-tuned tasks by their names alone."""

import dataclasses

import pytest

from electra_tf.config.saved_config import SavedConfig
from electra_tf.interop.conversion import with_kinds
from electra_tf.interop.model_checkpoint import ModelCheckpoint
from finetune.authors_tasks import describe_task
from finetune.config.task_kinds import built_in_kinds
from finetune.model_family import FINETUNING
from finetune.tasks.registry import restore_tasks
from tests.electra_tf.interop.models import TF1_DATA, format_of, own_hyperparameters

MULTI = TF1_DATA / "finetuning/heads/multi/model.ckpt"


def renamed(old: str, new: str, path=MULTI) -> ModelCheckpoint:
    """Returns the authors' checkpoint with another name of a task."""
    return with_kinds(renamed_only(format_of("tf1").read(str(path)), old, new), describe_task)


def renamed_only(checkpoint: ModelCheckpoint, old: str, new: str) -> ModelCheckpoint:
    """Returns a checkpoint with another name of a task, whose kind is not described."""
    arrays = {
        name.replace(f"task_specific/{old}/", f"task_specific/{new}/"): value
        for name, value in checkpoint.arrays.items()
    }
    tasks = tuple(
        dataclasses.replace(task, name=new if task.name == old else task.name)
        for task in checkpoint.description.tasks
    )
    description = dataclasses.replace(checkpoint.description, tasks=tasks)
    return dataclasses.replace(checkpoint, arrays=arrays, description=description)


def test_labels_and_settings_of_the_authors_tasks():
    checkpoint = with_kinds(format_of("tf1").read(str(MULTI)), describe_task)
    tasks = {task.name: task for task in checkpoint.description.tasks}
    assert tasks["cola"].labels == ("0", "1")
    assert tasks["cola"].settings == {"has_pairs": False}
    assert tasks["sts"].settings == {"has_pairs": True, "min_label": 0.0, "max_label": 5.0}
    assert tasks["squad"].settings == {"v2": True}
    assert tasks["chunk"].labels == tuple(f"LABEL_{i}" for i in range(9))
    assert checkpoint.notes == (
        "task_specific/chunk: its labels are not recorded: named LABEL_0 to LABEL_8",
    )
    described = own_hyperparameters(checkpoint)["tasks"]
    assert described["chunk"]["level"] == "token"
    assert described["sts"]["max_label"] == 5.0
    (mnli, _) = describe_task("mnli", {"dense/bias": (3,), "dense/kernel": (16, 3)})
    assert mnli.labels == ("contradiction", "entailment", "neutral")
    assert mnli.settings == {"has_pairs": True}
    (squad, _) = describe_task("squadv1", {"dense/bias": (1,), "dense_1/bias": (1,)})
    assert squad.settings == {"v2": False}


def test_converted_tasks_can_be_used(make_finetuning_config):
    checkpoint = with_kinds(format_of("tf1").read(str(MULTI)), describe_task)
    values = own_hyperparameters(checkpoint)
    rebuilt = FINETUNING.build(
        SavedConfig(values, {k: list(v.shape) for k, v in checkpoint.arrays.items()})
    )
    config = dataclasses.replace(
        make_finetuning_config(), task_names=tuple(values["task_names"])
    )
    for task in restore_tasks(config, None, values["tasks"]):
        head = task.build_head(rebuilt.description.encoder, rebuilt.model.dtype_policy)
        saved = rebuilt.model.head(task.name)
        assert [v.shape for v in head.variables] == [v.shape for v in saved.variables]


@pytest.mark.parametrize("name", built_in_kinds())
def test_every_built_in_task_is_described(name):
    task, messages = describe_task(name, {"dense/bias": (9,)})
    assert (task.name, task.kind) == (name, built_in_kinds()[name].name)
    assert messages == []


def test_the_kind_of_another_task_is_assumed_by_its_head_and_reported():
    checkpoint = renamed("cola", "mine")
    (task,) = [task for task in checkpoint.description.tasks if task.name == "mine"]
    assert (task.kind, task.labels) == ("classification", ("LABEL_0", "LABEL_1"))
    expected = "task_specific/mine: its kind is not recorded: classification is assumed"
    assert expected in checkpoint.notes
    plain = TF1_DATA / "finetuning/heads/qa_plain/model.ckpt"
    checkpoint = renamed("squad", "mine", plain)
    assert checkpoint.description.tasks[0].kind == "qa"
    assert checkpoint.notes == ("task_specific/mine: its kind is not recorded: qa is assumed",)


@pytest.mark.parametrize("name", ["mine", "cola"])
def test_a_task_of_a_single_output_is_assumed_to_be_regression(name):
    checkpoint = renamed_only(format_of("tf1").read(str(MULTI)), "cola", "moved")
    checkpoint = with_kinds(renamed_only(checkpoint, "sts", name), describe_task)
    (task,) = [task for task in checkpoint.description.tasks if task.name == name]
    assert (task.kind, task.labels) == ("regression", ())
    assert (
        f"task_specific/{name}: its kind is not recorded: regression is assumed with labels in "
        "[0, 1], since it has a single output"
    ) in checkpoint.notes
    described = own_hyperparameters(checkpoint)["tasks"][name]
    assert (described["kind"], described["max_label"]) == ("regression", 1.0)


def test_other_outputs_than_the_authors_labels_have_other_names():
    checkpoint = renamed("cola", "mnli")
    (task,) = [task for task in checkpoint.description.tasks if task.name == "mnli"]
    assert task.labels == ("LABEL_0", "LABEL_1")
