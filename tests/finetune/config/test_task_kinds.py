"""The table of the kinds of tasks."""

import inspect
import pkgutil
import subprocess
import sys

import pytest

from finetune.config.task_kinds import FILE_FORMATS, KINDS, built_in_kinds, kinds_by_name
from finetune.tasks.base import Task
from finetune.tasks.servable import TaskServable


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_names_the_code_that_implements_it(kind):
    task = pkgutil.resolve_name(kind.task)
    assert issubclass(task, Task)
    assert task.kind is kind
    assert issubclass(pkgutil.resolve_name(kind.servable), TaskServable)
    makers = [(kind.make_custom, "spec"), (kind.make_built_in, "name")]
    for maker, second in makers[: 2 if kind.built_in else 1]:
        parameters = list(inspect.signature(pkgutil.resolve_name(maker)).parameters)
        assert parameters == ["config", second, "tokenizer"]


def test_names_are_unique_and_formats_known():
    assert len(kinds_by_name()) == len(KINDS)
    assert len(built_in_kinds()) == sum(len(kind.built_in) for kind in KINDS)
    for kind in KINDS:
        assert {*kind.file_formats, *kind.formats_without_columns.values()} <= {*FILE_FORMATS}
        assert {*kind.column_synonyms.values()} <= {*kind.required_columns}


def test_the_table_is_read_without_tensorflow():
    code = "import sys, finetune.config.finetuning; print('tensorflow' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "False"
