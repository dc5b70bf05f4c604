"""What the serving functions of all tasks share: one head of a fine-tuned model."""

from typing import Generic, TypeVar

import tensorflow as tf

from electra_tf.inference.export.servable import Servable, ServedOutputs
from electra_tf.text.text_inputs import EncoderInputs
from finetune.features import FeatureSpec
from finetune.model import FinetuningModel
from finetune.task import Task

TaskT = TypeVar("TaskT", bound=Task)


class TaskServable(Servable, Generic[TaskT]):
    """One task of a fine-tuned model.

    Args:
        model: has the task's head.
        task: the task.
        max_seq_length: tokens of a row at most.
    """

    def __init__(self, model: FinetuningModel, task: TaskT, max_seq_length: int) -> None:
        super().__init__(task.tokenizer.tokenizer, max_seq_length, model.electra.linears)
        self.task = task
        self._model = model

    @property
    def metadata(self) -> dict:
        return {**super().metadata, "task": self.task.name, **self.task.description}

    def _head_outputs(
        self, inputs: EncoderInputs, features: dict[str, tf.Tensor] | None = None
    ) -> ServedOutputs:
        """Returns what the head puts out.

        Args:
            inputs: a batch.
            features: the task's own that are known; the others, such as labels, are 0.
        """
        zeros = {spec.name: _zeros(spec, inputs) for spec in self.task.feature_specs}
        features = {**inputs._asdict(), **zeros, **(features or {})}
        return self._model.predict_task(features, self.task.name).outputs


def _zeros(spec: FeatureSpec, inputs: EncoderInputs) -> tf.Tensor:
    """Returns zeros [batch], [batch, seq] or [batch, size], as the feature is."""
    shape = tf.shape(inputs.input_ids)
    if spec.size is not None:
        return tf.zeros(tf.stack([shape[0], spec.size]), spec.dtype)
    return tf.zeros(shape if spec.per_token else shape[:1], spec.dtype)
