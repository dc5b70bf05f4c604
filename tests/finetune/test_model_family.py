"""Fine-tuned models are rebuilt from `config.json`, without their tasks' data."""

import pathlib
import shutil

import numpy as np
import pytest

from electra_tf.interop.formats import make_format
from electra_tf.interop.native_family import load_model
from electra_tf.util.errors import UserError
from finetune.config.task_kinds import kind_of_task
from finetune.model_family import FINETUNING
from finetune.run import run


def test_a_trained_model_is_rebuilt_without_its_data(make_finetuning_config, tmp_path):
    config = make_finetuning_config(do_eval=False)
    run(config, lambda message: None)
    folder = shutil.copytree(f"{config.model_dir}_1", tmp_path / "copy")
    for name in ("cola", "chunk"):
        assert name not in {path.name for path in pathlib.Path(folder).iterdir()}
    checkpoint = make_format("electra_tf", [FINETUNING]).read(str(folder))
    (task,) = checkpoint.description.tasks
    assert (task.name, task.kind, task.labels) == ("cola", "classification", ("0", "1"))
    assert checkpoint.step > 0
    # The moments of training are there too, under the authors' names.
    assert np.any(checkpoint.slots["task_specific/cola/dense/kernel/adam_v"])
    model = load_model(checkpoint, [FINETUNING]).model
    kernel = model.head("cola").dense.kernel.numpy()
    np.testing.assert_array_equal(kernel, checkpoint.arrays["task_specific/cola/dense/kernel"])
    with pytest.raises(UserError, match="The model has no task 'mnli': choose cola"):
        model.head("mnli")


def test_kinds_of_the_authors_tasks():
    kinds = [kind_of_task(name) for name in ("mnli", "sts", "chunk", "squad", "newsqa")]
    assert kinds == ["classification", "regression", "tagging", "qa", "qa"]
