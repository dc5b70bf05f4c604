"""Multiple choice: the task and its head."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.cached_tokenizer import CachedTokenizer
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import MULTIPLE_CHOICE
from finetune.data.features import (
    DataReport,
    FeatureSpec,
    Row,
    sequence_names,
    sequence_specs,
)
from finetune.model import HeadOutput
from finetune.results.worst_errors import PredictionError
from finetune.tasks.averages import mean_of_softmax
from finetune.tasks.base import Outputs, Scores, SplitData
from finetune.tasks.choice.examples import ChoiceExample, choice_rows
from finetune.tasks.sources import ExampleSource, SourceTask
from finetune.tasks.text.base import TextHead, checked_labels, mean_loss, predicted_values
from finetune.tasks.text.class_loss import CROSS_ENTROPY, ClassLoss
from finetune.tasks.text.metrics import classification_metrics

_MIN_CHOICES = 2


class ChoiceHead(TextHead):
    """Scores each choice by dropout and one `Dense` on [CLS]; softmax over the choices.

    Args:
        hidden_size, dtype, name: as in `TextHead`.
        num_choices: maximum number of choices of an example.
        loss: training loss; evaluation reports the cross-entropy.
    """

    def __init__(
        self,
        hidden_size: int,
        dtype: keras.DTypePolicy,
        name: str,
        *,
        num_choices: int = _MIN_CHOICES,
        loss: ClassLoss = CROSS_ENTROPY,
    ) -> None:
        super().__init__(hidden_size, 1, dtype, name)
        self.num_sequences = num_choices
        self._training_loss = loss

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" [batch, num_choices], "predictions" int32 [batch].

        The logit of a choice that an example lacks is the lowest float32.
        """
        masks = [
            features[sequence_names(index).input_mask][:, 0]
            for index in range(self.num_sequences)
        ]
        is_choice = tf.stack(masks, axis=1) > 0
        logits = self.scores(sequence_output[:, :, 0], dropout_key)
        logits = tf.where(is_choice, logits, logits.dtype.min)
        loss = self._training_loss if is_training else CROSS_ENTROPY
        labels = features[f"{self.name}_label_ids"]
        losses = loss.losses(logits, labels, is_class=is_choice)
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})

    def scores(self, cls_output: tf.Tensor, dropout_key: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the scores of choices, float32 [...], from [CLS] outputs [..., hidden]."""
        return tf.squeeze(self._dense_of(cls_output, dropout_key), axis=-1)


class ChoiceTask(SourceTask):
    """Choice of one of several answers to a question, or continuations of a text.

    Args:
        config: hyperparameters.
        name: name of the task.
        tokenizer: tokenizer of the pre-trained model.
        source: source of the examples.
        labels: names of the choices in their order; an example may have fewer.
        has_question: whether choices follow a question.
    """

    kind = MULTIPLE_CHOICE
    average = staticmethod(mean_of_softmax)

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        labels: Sequence[str],
        has_question: bool,
    ) -> None:
        super().__init__(config, name, tokenizer, source)
        self.labels = checked_labels(name, labels, _MIN_CHOICES)
        self.has_question = has_question

    @classmethod
    def saved_head(
        cls,
        name: str,
        hidden_size: int,
        shapes: Mapping[str, Sequence[int]],
        dtype: keras.DTypePolicy,
    ) -> ChoiceHead:
        """Returns a new head, whose variables do not depend on the number of choices."""
        del shapes
        return ChoiceHead(hidden_size, dtype, name)

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns a description without questions; two choices if their names are unknown."""
        del arrays
        names = list(labels) or [str(index) for index in range(_MIN_CHOICES)]
        return {"kind": cls.kind.name, "labels": names, "has_question": False}

    @property
    def num_choices(self) -> int:
        """Maximum number of choices of an example."""
        return len(self.labels)

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "labels" and "has_question"."""
        return {
            "kind": self.kind.name,
            "labels": list(self.labels),
            "has_question": self.has_question,
        }

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """`<task>_eid`, `<task>_label_ids`, and the sequences after the first."""
        own = (FeatureSpec(f"{self.name}_eid"), FeatureSpec(self._target))
        return (*own, *sequence_specs(self.num_choices))

    @property
    def _target(self) -> str:
        return f"{self.name}_label_ids"

    def featurize(
        self, examples: Sequence[ChoiceExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns the rows of `choice_rows` with the index of the right choice."""
        del is_training
        length = self.config.max_seq_length
        rows = choice_rows(
            self.name, examples, self.tokenizer, length, self.num_choices, report
        )
        for row, example in zip(rows, examples, strict=True):
            row[self._target] = example.label
        return rows

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> ChoiceHead:
        """Returns a new head with the training loss of the run."""
        return ChoiceHead(
            encoder_config.hidden_size,
            dtype,
            self.name,
            num_choices=self.num_choices,
            loss=ClassLoss(self.config.label_smoothing, self.config.focal_gamma),
        )

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns the accuracy and the loss."""
        main = self.kind.main_metrics()[0]
        gold, predicted = self._gold(data), predicted_values(outputs)
        metrics = classification_metrics(gold, predicted, self.num_choices, (main,))
        return Scores(metrics={**metrics, "loss": mean_loss(outputs)}, main=main)

    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns "eid", "id" (if any), "prediction", "choice" and "probabilities".

        "prediction" is the name of the predicted choice, "choice" its text.
        """
        found = []
        for example, output in zip(data.examples, outputs, strict=True):
            names = self._names(example)
            logits = np.asarray(output["logits"][: len(names)], np.float64)
            chosen = int(output["predictions"])
            found.append(
                {
                    "eid": example.eid,
                    **({} if example.guid is None else {"id": example.guid}),
                    "prediction": names[chosen],
                    "choice": example.choices[chosen],
                    "probabilities": dict(
                        zip(names, scipy.special.softmax(logits).tolist(), strict=True)
                    ),
                }
            )
        return found

    def errors(self, data: SplitData, outputs: Sequence[Outputs]) -> list[PredictionError]:
        """Returns the examples with a wrong prediction."""
        found = []
        for example, output in zip(data.examples, outputs, strict=True):
            chosen = int(output["predictions"])
            if chosen != example.label:
                gold, predicted = (
                    f"{self._names(example)[index]}: {example.choices[index]}"
                    for index in (example.label, chosen)
                )
                text = " | ".join(filter(None, (example.text, example.question)))
                found.append(PredictionError(text, gold, predicted, float(output["loss"])))
        return found

    def class_logits(
        self, data: SplitData, outputs: Sequence[Outputs]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits float64 [n, num_choices] and the right choices int [n].

        The logits of choices that an example lacks are so low that their probability is 0.
        """
        logits = np.array([output["logits"] for output in outputs], np.float64)
        return logits, self._gold(data)

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns a message if gold positions vary, but predicted positions do not."""
        predicted = np.unique(predicted_values(outputs))
        if len(predicted) > 1 or len(np.unique(self._gold(data))) < 2:
            return None
        return f"chooses the same position for every example ({self.labels[int(predicted[0])]})"

    def _gold(self, data: SplitData) -> np.ndarray:
        return np.array([row[self._target] for row in data.rows])

    def _names(self, example: ChoiceExample) -> tuple[str, ...]:
        return example.names or self.labels[: len(example.choices)]
