"""Base classes of text tasks: task, head and servable."""

import abc
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.model import randomness
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs, pair_inputs, single_text_inputs
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.model import Dense, TaskHead
from finetune.results.worst_errors import PredictionError
from finetune.tasks.base import Outputs, SplitData
from finetune.tasks.servable import TaskServable
from finetune.tasks.sources import ExampleSource, NoSource, SourceTask
from finetune.tasks.text.examples import InputExample, text_rows
from finetune.tasks.text.submissions import glue_submission

# The authors' dropout rate, regardless of the encoder's.
DROPOUT_RATE = 0.1


class TextHead(TaskHead):
    """Dropout and one `Dense` on the encoder's output at [CLS].

    Args:
        hidden_size: hidden size of the encoder.
        units: number of outputs.
        dtype: dtype policy of the model; the head computes in float32 regardless.
        name: name of the task.
    """

    positions = slice(0, 1)

    def __init__(
        self, hidden_size: int, units: int, dtype: keras.DTypePolicy, name: str
    ) -> None:
        super().__init__(autocast=False, dtype=dtype, name=name)
        with keras.name_scope(self.name):
            self.dense = Dense(hidden_size, units, dtype=dtype, name="dense")
        self.built = True

    def _dense_of_cls(
        self, sequence_output: tf.Tensor, dropout_key: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns float32 [batch, units] of the encoder's output [batch, seq, hidden]."""
        return self._dense_of(sequence_output[:, 0], dropout_key)

    def _dense_of(self, cls_output: tf.Tensor, dropout_key: tf.Tensor | None) -> tf.Tensor:
        """Returns float32 [..., units] of the output at [CLS], [..., hidden]."""
        x = tf.cast(cls_output, tf.float32)
        if dropout_key is not None:
            x = randomness.dropout(x, DROPOUT_RATE, dropout_key)
        return self.dense(x)


class TextTask(SourceTask, abc.ABC):
    """Base class of text tasks.

    Args:
        config: hyperparameters.
        name: name of the task.
        tokenizer: tokenizer of the pre-trained model.
        source: source of the examples.
        main_metric: one of `kind.main_metrics()`; None chooses the first one.

    Attributes:
        head_class: class of the head.
    """

    head_class: ClassVar[type[TextHead]]

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        main_metric: str | None = None,
    ) -> None:
        super().__init__(config, name, tokenizer, source)
        metrics = self.kind.main_metrics()
        self.main_metric = main_metric or metrics[0]
        if self.main_metric not in metrics:
            raise UserError(
                f"The metric of task {name!r} must be one of {', '.join(metrics)}, not "
                f"{self.main_metric!r}"
            )

    @classmethod
    def restore(
        cls,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        description: Mapping[str, Any],
    ) -> "TextTask":
        """Returns the task of a fine-tuned model for prediction."""
        settings = {k: v for k, v in description.items() if k not in ("kind", "has_pairs")}
        return cls(config, name, tokenizer, NoSource(description["has_pairs"]), **settings)

    @classmethod
    def saved_head(
        cls,
        name: str,
        hidden_size: int,
        shapes: Mapping[str, Sequence[int]],
        dtype: keras.DTypePolicy,
    ) -> TextHead:
        """Returns a new head with as many outputs as the saved one."""
        return cls.head_class(hidden_size, shapes["dense/bias"][0], dtype, name)

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the description of a task of single texts, as weights do not reveal pairs."""
        return {"kind": cls.kind.name, "has_pairs": False, "labels": list(labels)}

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """`<task>_eid` and the target."""
        return (FeatureSpec(f"{self.name}_eid"), self.target_spec)

    @property
    def description(self) -> dict[str, Any]:
        """ "kind" and "has_pairs"."""
        return {"kind": self.kind.name, "has_pairs": self.source.has_pairs}

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int:
        """Outputs of the head."""

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> TextHead:
        """Returns a new head with `num_outputs` outputs."""
        return self.head_class(encoder_config.hidden_size, self.num_outputs, dtype, self.name)

    @property
    @abc.abstractmethod
    def target_spec(self) -> FeatureSpec:
        """The feature of the label."""

    @abc.abstractmethod
    def target(self, example: InputExample) -> int | float | np.ndarray:
        """Returns the value of the target feature."""

    def featurize(
        self, examples: Sequence[InputExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns the rows of `example_rows` with the target of their example."""
        del is_training
        rows = []
        for example, parts in zip(examples, self.example_rows(examples, report), strict=True):
            target = self.target(example)
            rows += [{**row, self.target_spec.name: target} for row in parts]
        return rows

    def example_rows(
        self, examples: Sequence[InputExample], report: DataReport
    ) -> list[list[Row]]:
        """Returns the rows of each example, without target: here one, of truncated texts."""
        length = self.config.max_seq_length
        rows = text_rows(self.name, examples, self.tokenizer, length, report)
        return [[row] for row in rows]

    def by_example(self, data: SplitData, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Returns one output per example, from the outputs of its rows."""
        del data
        return outputs

    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns "eid", "id" (if any) and the prediction of each example."""
        found = []
        by_example = self.by_example(data, outputs)
        for example, output in zip(data.examples, by_example, strict=True):
            name = {} if example.guid is None else {"id": example.guid}
            found.append({"eid": example.eid, **name, **self.prediction(output)})
        return found

    def errors(self, data: SplitData, outputs: Sequence[Outputs]) -> list[PredictionError]:
        """Returns the examples whose label is not the predicted one."""
        found = []
        by_example = self.by_example(data, outputs)
        for example, output in zip(data.examples, by_example, strict=True):
            predicted = self.label_text(self.prediction(output)["prediction"])
            gold = self.label_text(example.label)
            if predicted != gold:
                text = " | ".join(filter(None, (example.text_a, example.text_b)))
                found.append(PredictionError(text, gold, predicted, float(output["loss"])))
        return found

    def single_label(self, data: SplitData) -> str | None:
        """Returns the label, labels or number that all examples have, or None."""
        labels = {example.label for example in data.examples}
        return repr(self.label_text(labels.pop())) if len(labels) == 1 else None

    def label_text(self, label: Any) -> str:
        """Returns a label, labels in any order, or a number as text."""
        if isinstance(label, float | int):
            return f"{label:.6g}"
        return label if isinstance(label, str) else ", ".join(sorted(label))

    @abc.abstractmethod
    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns the prediction for one example, JSON-serializable."""

    def write_test_outputs(
        self, folder: str, data: SplitData, outputs: Sequence[Outputs], trial: int | str
    ) -> list[str]:
        """Writes JSON lines and, for GLUE tasks, the submission and the authors' pickle.

        The pickle maps example ids to logits, or to the predicted number.
        """
        paths = super().write_test_outputs(folder, data, outputs, trial)
        predictions = self.predictions(data, outputs)
        submission = glue_submission(self.name, data.split, predictions)
        if submission is not None:
            path = os.path.join(folder, f"glue_{trial}", submission.file_name)
            write_atomically(path, submission.text)
            pickle_path = paths[0].removesuffix(".jsonl") + ".pkl"
            by_number = {
                example.eid: output.get("logits", output["predictions"])
                for example, output in zip(
                    data.examples, self.by_example(data, outputs), strict=True
                )
            }
            write_atomically(pickle_path, pickle.dumps(by_number))
            paths += [path, pickle_path]
        return paths

    def _targets(self, data: SplitData) -> np.ndarray:
        return np.array([row[self.target_spec.name] for row in data.rows])


def checked_labels(name: str, labels: Sequence[str], least: int) -> tuple[str, ...]:
    """Returns the labels of a task; raises UserError unless at least `least` distinct ones."""
    if len(labels) < least or len(set(labels)) < len(labels):
        raise UserError(
            f"Task {name!r} needs at least {least} distinct labels; it has: "
            f"{', '.join(labels) or 'none'}"
        )
    return tuple(labels)


def predicted_values(outputs: Sequence[Outputs]) -> np.ndarray:
    """Returns the "predictions" of all rows, [n] or [n, labels]."""
    return np.array([output["predictions"] for output in outputs])


def mean_loss(outputs: Sequence[Outputs]) -> float:
    """Returns the mean "loss" of all rows, summed in float64."""
    return float(np.mean([output["loss"] for output in outputs], dtype=np.float64))


class TextServable(TaskServable[TextTask]):
    """Takes `text`, or `text_a` and `text_b` for tasks on pairs."""

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text_a", "text_b") if self.task.source.has_pairs else ("text",)

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        tokens = [self.tokenizer.tokenize(texts[name]) for name in self.text_names]
        to_inputs = pair_inputs if len(tokens) == 2 else single_text_inputs
        return self.answer_tokens(to_inputs(self.vocabulary, *tokens, self.max_seq_length))

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        return self.predict(inputs)


class LabelServable(TextServable):
    """Also returns `labels` string [batch, classes], the names of the columns of scores."""

    def with_labels(self, outputs: ServedOutputs) -> ServedOutputs:
        """Adds `labels` to outputs that have `scores` [batch, classes]."""
        scores = outputs["scores"]
        labels = tf.broadcast_to(tf.constant(self.task.labels), tf.shape(scores))
        return {"labels": labels, **outputs}
