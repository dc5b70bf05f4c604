"""The fine-tuned model: one encoder, and one head per task."""

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.interop.model_checkpoint import TASK_SCOPE
from electra_tf.interop.variable_names import NamedVariable
from electra_tf.model import metrics
from electra_tf.model import randomness as model_randomness
from electra_tf.model.batch_types import LossTerm
from electra_tf.model.encoder import Encoder
from electra_tf.model.randomness import Randomness
from electra_tf.util.errors import UserError
from finetune.data.features import INPUT_IDS, TASK_ID, sequence_names

# Loss term of all tasks together; task names begin with a letter or digit.
MEAN = "_mean"


class Dense(keras.layers.Layer):
    """`x @ kernel + bias` in float32, regardless of the model's precision.

    Heads are so small that float32 costs nothing.

    Args:
        input_size: size of the last axis of the input.
        units: size of the last axis of the output.
    """

    def __init__(self, input_size: int, units: int, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.kernel = self.add_weight(
            shape=(input_size, units),
            initializer=keras.initializers.GlorotUniform(),
            dtype="float32",
            autocast=False,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(units,), initializer="zeros", dtype="float32", autocast=False, name="bias"
        )
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns float32 [..., units] of `x` [..., input_size] of any float dtype."""
        kernel = tf.convert_to_tensor(self.kernel)
        flat = tf.reshape(tf.cast(x, tf.float32), [-1, kernel.shape[0]])
        y = tf.matmul(flat, kernel) + tf.convert_to_tensor(self.bias)
        y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [kernel.shape[1]]], axis=0))
        y.set_shape(x.shape[:-1].concatenate(kernel.shape[1:]))
        return y


class HeadOutput(NamedTuple):
    """`losses` float32 [batch], and `outputs` with a leading axis [batch]."""

    losses: tf.Tensor
    outputs: dict[str, tf.Tensor]


class TaskHead(keras.layers.Layer, abc.ABC):
    """The layers of one task on top of the encoder, under `task_specific/<task>/`.

    Layers are created and built in `__init__`, in `with keras.name_scope(self.name)`, so that
    their variables have the name of the task.

    Attributes:
        positions: positions that the head reads; None means all. Exports compute the last layer
            at these positions only, so the head must not read any others.
        num_sequences: number of sequences of a row that the head reads, from the first.
    """

    positions: ClassVar[slice | None] = None
    num_sequences: int = 1

    @abc.abstractmethod
    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns losses and outputs for all rows of a batch, including those of other tasks.

        Args:
            sequence_output: [batch, seq, hidden] in the encoder's compute dtype; if the head
                reads several sequences, [batch, num_sequences, seq, hidden].
            features: `input_ids`, `input_mask`, `segment_ids` int32 [batch, seq], for each
                sequence (`sequence_names`), and the features of the task, which are 0 for
                rows of other tasks.
            dropout_key: uint32 [2]; None for inference.
            is_training: whether gold labels may be used.
        """

    def named_variables(self) -> list[NamedVariable]:
        """Returns the mapping of the weights to variables of the authors' checkpoints.

        In a model, the paths of the weights are these names, such as
        `task_specific/<task>/<layer>/<variable>`.
        """
        return [NamedVariable(variable, (variable.path,)) for variable in self.weights]


class FinetuningOutput(NamedTuple):
    """Output of the model for a batch.

    `terms` has the single loss term; `losses` float32 [batch] is the loss of each row under
    its task; `heads` has the `HeadOutput` of each task for all rows; `task_id` is int32
    [batch].
    """

    terms: dict[str, LossTerm]
    losses: tf.Tensor
    heads: dict[str, HeadOutput]
    task_id: tf.Tensor


class HeadBuilder(Protocol):
    """The part of a task that the model needs."""

    name: str

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> TaskHead:
        """Returns a new head, named `name`."""


def _check_variables(task_name: str, head: TaskHead) -> None:
    """Raises ValueError unless a head has built its variables, under the name of its task.

    Variables that a layer builds when it is first called are neither trained nor saved.
    """
    for layer in head._flatten_layers(include_self=False):
        may_have_variables = type(layer).build is not keras.layers.Layer.build
        if may_have_variables and not layer.built:
            raise ValueError(
                f"the layer {layer.name} of the head of task {task_name} is not built, so its "
                "variables, if any, would not be trained: call its `build` in the `__init__` "
                "of the head"
            )
    for variable in head.variables:
        if not variable.path.startswith(f"{TASK_SCOPE}{task_name}/"):
            raise ValueError(
                f"the variable {variable.path} of the head of task {task_name} is not under "
                f"{TASK_SCOPE}{task_name}/: create its layer in "
                "`with keras.name_scope(self.name)`"
            )


class FinetuningModel(keras.Model):
    """An encoder under `electra/`, and heads under `task_specific/<task>/`.

    Args:
        encoder_config: shape of the encoder.
        tasks: tasks in the order of their ids.
        precision: Keras dtype policy.
        rematerialize: see `electra_tf.model.encoder.Encoder`.
    """

    def __init__(
        self,
        encoder_config: EncoderConfig,
        tasks: Sequence[HeadBuilder],
        precision: str = "float32",
        *,
        rematerialize: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(dtype=keras.DTypePolicy(precision), autocast=False, **kwargs)
        self.encoder_config = encoder_config
        # Not named task_names: that attribute holds the head of a task called "names".
        self.head_names = tuple(task.name for task in tasks)
        self.electra = Encoder(
            encoder_config,
            rematerialize=rematerialize,
            dtype=self.dtype_policy,
            name="electra",
        )
        with keras.name_scope(TASK_SCOPE.removesuffix("/")):
            for task in tasks:
                head = task.build_head(encoder_config, self.dtype_policy)
                _check_variables(task.name, head)
                # One attribute per head, which fixes the checkpoint keys.
                setattr(self, _attribute(task.name), head)
        self.built = True

    def head(self, task_name: str) -> TaskHead:
        """Returns the head of a task.

        Raises:
            UserError: the model has no such task.
        """
        if task_name not in self.head_names:
            raise UserError(
                f"The model has no task {task_name!r}: choose {', '.join(self.head_names)}"
            )
        return getattr(self, _attribute(task_name))

    @property
    def num_sequences(self) -> int:
        """Number of sequences to encode per row of a training batch, such as one per choice."""
        return max(self.head(name).num_sequences for name in self.head_names)

    def prepare(
        self, features: Mapping[str, tf.Tensor], *, randomness: Randomness
    ) -> Mapping[str, tf.Tensor]:
        """Returns the batch unchanged; nothing is masked in fine-tuning."""
        return features

    def forward(
        self, features: Mapping[str, tf.Tensor], *, randomness: Randomness
    ) -> FinetuningOutput:
        """Runs all heads on a training batch.

        As in the authors' code, the loss is the sum over rows.

        Args:
            features: `input_ids`, `input_mask`, `segment_ids` int32 [batch, seq],
                `task_id` int32 [batch], and the features of every task.
            randomness: random stream of dropout.
        """
        heads = self._run_heads(
            features,
            self.head_names,
            randomness.dropout_key("finetuning_dropout"),
            is_training=True,
        )
        losses = tf.add_n(
            [
                tf.where(features[TASK_ID] == task_id, heads[name].losses, 0.0)
                for task_id, name in enumerate(self.head_names)
            ]
        )
        term = LossTerm(
            tf.reduce_mean(losses), coefficient=1.0, weight=_num_rows(features), summed=True
        )
        return FinetuningOutput({MEAN: term}, losses, heads, features[TASK_ID])

    def term_weights(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the number of rows, the weight of the loss."""
        return {MEAN: _num_rows(features)}

    def predict_task(
        self,
        features: Mapping[str, tf.Tensor],
        task_name: str,
        *,
        skip_unread: bool = False,
    ) -> HeadOutput:
        """Runs the head of one task, without dropout.

        Args:
            features: those of the encoder, and those of the task (`Task.feature_specs`), such
                as labels, which affect the losses alone.
            task_name: name of the task.
            skip_unread: compute the encoder's last layer only where the head reads it, which
                changes results by rounding.
        """
        positions = self.head(task_name).positions if skip_unread else None
        heads = self._run_heads(
            features, (task_name,), None, is_training=False, positions=positions
        )
        return heads[task_name]

    def metric_sums(self, output: FinetuningOutput) -> dict[str, tf.Tensor]:
        """Returns the sums of each task's mean loss; see `electra_tf.model.metrics`."""
        if len(self.head_names) == 1:
            return {}
        return {
            f"{name}_loss": metrics.mean_sums(
                output.losses, tf.cast(output.task_id == task_id, tf.float32)
            )
            for task_id, name in enumerate(self.head_names)
        }

    def _run_heads(
        self,
        features: Mapping[str, tf.Tensor],
        task_names: Sequence[str],
        dropout_key: tf.Tensor | None,
        *,
        is_training: bool,
        positions: slice | None = None,
    ) -> dict[str, HeadOutput]:
        keys = [None] * (len(task_names) + 1)
        if dropout_key is not None:
            keys = tf.unstack(model_randomness.split(dropout_key, len(keys)))
        counts = [self.head(name).num_sequences for name in task_names]
        outputs = self._encode(features, max(counts), keys[-1], positions)
        return {
            name: self.head(name)(
                outputs[0] if count == 1 else tf.stack(outputs[:count], axis=1),
                features,
                dropout_key=key,
                is_training=is_training,
            )
            for name, count, key in zip(task_names, counts, keys, strict=False)
        }

    def _encode(
        self,
        features: Mapping[str, tf.Tensor],
        num_sequences: int,
        dropout_key: tf.Tensor | None,
        positions: slice | None,
    ) -> list[tf.Tensor]:
        """Returns [batch, seq, hidden] for each sequence of the rows, encoded as one batch.

        A sequence that a row lacks consists of padding.
        """
        inputs = [
            [features[name] for name in sequence_names(index)] for index in range(num_sequences)
        ]
        if num_sequences == 1:
            return [self.electra(*inputs[0], dropout_key, positions=positions).sequence_output]
        merged = [tf.concat(parts, axis=0) for parts in zip(*inputs, strict=True)]
        output = self.electra(*merged, dropout_key, positions=positions).sequence_output
        return tf.split(output, num_sequences)


def _num_rows(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.cast(tf.shape(features[INPUT_IDS])[0], tf.float32)


def _attribute(task_name: str) -> str:
    return f"task_{task_name}"
