"""Predictions do not depend on how the cores of a CPU share a batch."""

import types
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.compilation import side_by_side
from electra_tf.model.kernels import CastKernels
from finetune import predictor
from finetune.model import FinetuningModel
from finetune.predictor import prediction_function
from finetune.tasks.base import SplitData
from finetune.tasks.registry import build_tasks
from tests.conftest import SEQ_LENGTH, VOCAB_SIZE


def test_parts_of_a_batch_predict_what_the_whole_does(make_finetuning_config):
    config = make_finetuning_config()
    (task,) = build_tasks(config, tokenizer=None)
    keras.utils.set_random_seed(1)
    model = FinetuningModel(config.encoder, [task], config.precision)
    kernels = CastKernels(model.electra.linears)
    generator = np.random.default_rng(1)
    ids = generator.integers(5, VOCAB_SIZE, (6, SEQ_LENGTH), np.int32)
    mask = (np.arange(SEQ_LENGTH) < generator.integers(2, SEQ_LENGTH, (6, 1))).astype(np.int32)
    features = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": 0 * mask,
        f"{task.name}_label_ids": generator.integers(0, 2, 6, np.int32),
    }

    def predict(num_parts: int) -> dict[str, tf.Tensor]:
        function = prediction_function(
            model, task.name, kernels, num_parts=num_parts, jit_compile=False
        )
        return tf.function(function, autograph=False)(features)

    whole, parts = predict(1), predict(4)  # 3 parts
    assert parts.keys() == whole.keys() >= {"loss", "logits"}
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_batches_are_divided_by_their_tokens(make_finetuning_config, monkeypatch):
    config = make_finetuning_config()
    (task,) = build_tasks(config, tokenizer=None)
    keras.utils.set_random_seed(1)
    model = FinetuningModel(config.encoder, [task], config.precision)
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    generator = np.random.default_rng(1)
    lengths = [3, SEQ_LENGTH, 5, SEQ_LENGTH - 1, SEQ_LENGTH, 2, 7, SEQ_LENGTH]
    rows = [
        {
            "input_ids": generator.integers(5, VOCAB_SIZE, length, np.int32),
            "input_mask": np.ones(length, np.int32),
            "segment_ids": np.zeros(length, np.int32),
            f"{task.name}_label_ids": 0,
        }
        for length in lengths
    ]
    data = SplitData("dev", [None] * len(rows), rows)
    traced = []

    def logits(parts: Callable[[int, int], int]) -> list[np.ndarray]:
        def traced_parts(function: Callable, num_parts: int) -> Callable:
            traced.append(num_parts)
            return side_by_side(function, num_parts)

        monkeypatch.setattr(predictor, "parts_of", parts)
        monkeypatch.setattr(predictor, "side_by_side", traced_parts)
        outputs = predictor.Predictor(model, strategy, buckets=(8, SEQ_LENGTH)).predict(
            task, data, batch_size=4
        )
        return [output["logits"] for output in outputs]

    whole = logits(lambda cores, num_tokens: 1)
    assert traced == [1]
    divided = logits(lambda cores, num_tokens: 4 if num_tokens > 4 * 8 else 2)
    assert traced == [1, 2, 4]
    np.testing.assert_allclose(divided, whole, rtol=1e-5, atol=1e-6)


def test_operations_get_few_threads_where_nothing_else_is_slower(make_finetuning_config):
    predicts = {"do_train": False, "precision": "mixed_bfloat16"}
    assert make_finetuning_config(**predicts).limits_operation_threads
    for other in (
        {"do_train": True},
        {"precision": "float32"},
        {"jit_compile": True},
        {"strategy": "mirrored"},
    ):
        assert not make_finetuning_config(**{**predicts, **other}).limits_operation_threads


def test_a_head_whose_variables_do_not_have_the_name_of_its_task_is_refused(
    make_finetuning_config,
):
    config = make_finetuning_config()

    class Head(keras.layers.Layer):
        def __init__(self, name: str) -> None:
            super().__init__(name=name)
            self.dense = keras.layers.Dense(1, name="dense")
            self.dense.build([None, 4])

    task = types.SimpleNamespace(name="cola", build_head=lambda *_: Head("cola"))
    with pytest.raises(
        ValueError, match=r"task_specific/dense/kernel of the head of task cola"
    ):
        FinetuningModel(config.encoder, [task], "float32")
