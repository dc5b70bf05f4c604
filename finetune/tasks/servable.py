"""Base class of the servables of tasks."""

from typing import Generic, TypeVar

import tensorflow as tf

from electra_tf.inference.export.servable import Servable, ServedOutputs
from electra_tf.text.text_inputs import EncoderInputs
from finetune.data.features import FeatureSpec
from finetune.model import FinetuningModel
from finetune.tasks.base import Task

TaskT = TypeVar("TaskT", bound=Task)


class TaskServable(Servable, Generic[TaskT]):
    """Servable of one task of a fine-tuned model.

    Args:
        model: the fine-tuned model.
        task: the task.
        max_seq_length: maximum sequence length, in tokens.
    """

    def __init__(self, model: FinetuningModel, task: TaskT, max_seq_length: int) -> None:
        super().__init__(task.tokenizer.tokenizer, max_seq_length, model.electra)
        self.task = task
        self._model = model

    @property
    def metadata(self) -> dict:
        """See `Servable.metadata`; adds the task, and what `Task.restore` needs of it."""
        return {**super().metadata, "task": self.task.name, **self.task.description}

    def _head_outputs(
        self, inputs: EncoderInputs, features: dict[str, tf.Tensor] | None = None
    ) -> ServedOutputs:
        """Returns the outputs of the head.

        Args:
            inputs: a batch.
            features: known features of the task; the others, such as labels, are 0.
        """
        zeros = {spec.name: _zeros(spec, inputs) for spec in self.task.feature_specs}
        features = {**inputs._asdict(), **zeros, **(features or {})}
        name = self.task.name
        return self._model.predict_task(features, name, skip_unread=True).outputs


def _zeros(spec: FeatureSpec, inputs: EncoderInputs) -> tf.Tensor:
    """Returns zeros of the feature's shape: [batch], [batch, seq] or [batch, size]."""
    shape = tf.shape(inputs.input_ids)
    if spec.size is not None:
        return tf.zeros(tf.stack([shape[0], spec.size]), spec.dtype)
    return tf.zeros(shape if spec.per_token else shape[:1], spec.dtype)
