"""A fine-tuned model as its `config.json` describes it, built without the tasks' data."""

from collections.abc import Mapping, Sequence

import keras

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.saved_config import SavedConfig
from electra_tf.interop.variable_names import NamedVariable, encoder_variables
from finetune.config.defaults import QA_TASKS
from finetune.model import TASK_SCOPE, FinetuningModel, TaskHead
from finetune.tasks.qa.head import QAHead
from finetune.tasks.tagging.head import TaggingHead
from finetune.tasks.tagging.task import TAGGING_TASKS
from finetune.tasks.text.classification import ClassificationHead
from finetune.tasks.text.multilabel import MultilabelHead
from finetune.tasks.text.regression import RegressionHead

_HEADS = {
    "classification": ClassificationHead,
    "multilabel": MultilabelHead,
    "regression": RegressionHead,
    "tagging": TaggingHead,
}
_REGRESSION_TASKS = ("sts",)


class SavedTask:
    """Builds the head of a task whose data is not at hand.

    Args:
        name: of the task.
        kind: of `finetune.custom.spec.KINDS`.
        shapes: of the head's variables, by names such as "dense/kernel".
    """

    def __init__(self, name: str, kind: str, shapes: Mapping[str, Sequence[int]]) -> None:
        self.name = name
        self.kind = kind
        self._shapes = shapes

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> TaskHead:
        """Returns a new head, named `name`, with variables of the given shapes."""
        if self.kind != "qa":
            units = self._shapes["dense/bias"][0]
            return _HEADS[self.kind](encoder_config.hidden_size, units, dtype, self.name)
        return QAHead(
            encoder_config.hidden_size,
            joint_prediction="qa_hidden/kernel" in self._shapes,
            answerable_classifier="dense_2/kernel" in self._shapes,
            answerable_uses_start_logits="dense_3/kernel" in self._shapes,
            dtype=dtype,
            name=self.name,
        )


def saved_tasks(description: SavedConfig) -> list[SavedTask]:
    """Returns the tasks of a fine-tuned model, in the order of their ids."""
    values = description.hyperparameters
    shapes: dict[str, dict[str, Sequence[int]]] = {name: {} for name in values["task_names"]}
    for path, shape in description.variables.items():
        scope, _, rest = path.partition("/")
        if scope == TASK_SCOPE:
            name, _, variable = rest.partition("/")
            shapes[name][variable] = shape
    described = values.get("tasks", {})

    def kind(name: str) -> str:
        return (
            described.get(name, {}).get("kind")
            or values.get("own_task_kind")
            or task_kind(name)
        )

    return [SavedTask(name, kind(name), shapes[name]) for name in shapes]


def task_kind(name: str) -> str:
    """Returns the kind of one of the authors' tasks; of others, classification."""
    if name in QA_TASKS:
        return "qa"
    if name in TAGGING_TASKS:
        return "tagging"
    return "regression" if name in _REGRESSION_TASKS else "classification"


def finetuned_variables(model: FinetuningModel) -> list[NamedVariable]:
    """Returns the mapping of a model's variables to the authors' names."""
    mapping = encoder_variables(model.electra)
    for name in model.head_names:
        mapping += model.head(name).tf1_variables()
    return mapping
