"""A kind of task of its own: a whole number for each text, by Poisson regression."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import TaskKind
from finetune.config.task_spec import TaskSpec
from finetune.data.features import FeatureSpec
from finetune.model import HeadOutput
from finetune.tasks.base import Outputs, Scores, SplitData
from finetune.tasks.text.base import TextHead, TextServable, TextTask, mean_loss
from finetune.tasks.text.custom import NumberLabels, TextSource
from finetune.tasks.text.examples import InputExample

COUNTING = TaskKind(
    name="counting",
    task="tests.finetune.tasks.counting:CountingTask",
    servable="tests.finetune.tasks.counting:CountingServable",
    make_custom="tests.finetune.tasks.counting:make_counting_task",
    required_columns=("text_a", "label"),
    column_synonyms={"text": "text_a"},
    metrics={None: ("exact",)},
    defaults={"num_train_epochs": 7.0},
)


class CountingHead(TextHead):
    """The logarithm of the expected count."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        del is_training
        log_rate = tf.squeeze(self._dense_of_cls(sequence_output, dropout_key), axis=-1)
        losses = tf.nn.log_poisson_loss(features[f"{self.name}_counts"], log_rate)
        return HeadOutput(losses, {"rates": tf.exp(log_rate)})


class CountingTask(TextTask):
    kind = COUNTING
    head_class = CountingHead
    num_outputs = 1

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        return {"kind": cls.kind.name, "has_pairs": False}

    @property
    def target_spec(self) -> FeatureSpec:
        return FeatureSpec(f"{self.name}_counts", "float32")

    def target(self, example: InputExample) -> float:
        return float(example.label)

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        rounded = np.round([output["rates"] for output in outputs])
        exact = 100 * float(np.mean(rounded == self._targets(data)))
        return Scores({"exact": exact, "loss": mean_loss(outputs)}, self.main_metric)

    def prediction(self, output: Outputs) -> dict[str, Any]:
        return {"prediction": float(output["rates"])}


class CountingServable(TextServable):
    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        return {"rate": self._head_outputs(inputs)["rates"]}


def make_counting_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> CountingTask:
    source = TextSource(spec, config, NumberLabels)
    return CountingTask(config, spec.name, tokenizer, source, main_metric=spec.metric)
