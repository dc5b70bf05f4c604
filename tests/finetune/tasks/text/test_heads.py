import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import randomness
from finetune.model import Dense
from finetune.tasks.text.class_loss import ClassLoss
from finetune.tasks.text.classification import ClassificationHead
from finetune.tasks.text.multilabel import MultilabelHead
from finetune.tasks.text.regression import RegressionHead

FLOAT32 = keras.DTypePolicy("float32")
# (batch 2, seq 3, hidden 2); heads look at the first token alone.
SEQUENCE_OUTPUT = np.array([[[1, 2], [9, 9], [9, 9]], [[-1, 0.5], [9, 9], [9, 9]]], np.float32)


def make_head(head_class, units, dtype=FLOAT32):
    with keras.name_scope("task_specific"):
        head = head_class(2, units, dtype, "mine")
    head.dense.kernel.assign(np.arange(2.0 * units).reshape(2, units) / 10)
    head.dense.bias.assign(np.arange(units) / 5 + 0.1)
    return head


def dense_of_cls(units):
    kernel = np.arange(2.0 * units).reshape(2, units) / 10
    return SEQUENCE_OUTPUT[:, 0] @ kernel + np.arange(units) / 5 + 0.1


def test_variables():
    head = make_head(ClassificationHead, 3)
    paths = ["task_specific/mine/dense/kernel", "task_specific/mine/dense/bias"]
    assert [v.path for v in head.trainable_variables] == paths
    mapping = {entry.names: entry.variable for entry in head.named_variables()}
    assert mapping == {(paths[0],): head.dense.kernel, (paths[1],): head.dense.bias}


def test_glorot_uniform_and_zeros():
    keras.utils.set_random_seed(1)
    dense = Dense(300, 100, dtype="mixed_bfloat16", name="dense")
    kernel = dense.kernel.numpy()
    limit = np.sqrt(6 / 400)
    assert 0.98 * limit < np.abs(kernel).max() <= limit
    assert np.std(kernel) == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not dense.bias.numpy().any()
    assert kernel.dtype == np.float32


def test_classification():
    head = make_head(ClassificationHead, 3)
    losses, outputs = head(SEQUENCE_OUTPUT, {"mine_label_ids": tf.constant([2, 0])})
    logits = dense_of_cls(3)
    np.testing.assert_allclose(outputs["logits"], logits, rtol=1e-6)
    log_sum = np.log(np.exp(logits).sum(axis=1))
    np.testing.assert_allclose(losses, log_sum - logits[[0, 1], [2, 0]], rtol=1e-5)
    assert outputs["predictions"].numpy().tolist() == logits.argmax(axis=1).tolist()


def test_options_of_the_classification_loss_are_for_training():
    loss = ClassLoss(smoothing=0.1, gamma=2.0)
    head = ClassificationHead(2, 3, FLOAT32, "mine", loss, has_weights=True)
    labels = tf.constant([2, 0])
    features = {"mine_label_ids": labels, "mine_weights": tf.constant([3.0, 0.5])}
    trained, outputs = head(SEQUENCE_OUTPUT, features, is_training=True)
    expected = loss.losses(outputs["logits"], labels, features["mine_weights"])
    assert trained.numpy().tolist() == expected.numpy().tolist()
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["logits"])
    assert head(SEQUENCE_OUTPUT, features).losses.numpy().tolist() == plain.numpy().tolist()
    assert (trained.numpy() != plain.numpy()).all()


def test_regression():
    head = make_head(RegressionHead, 1)
    losses, outputs = head(SEQUENCE_OUTPUT, {"mine_targets": tf.constant([1.0, 0.0])})
    expected = dense_of_cls(1)[:, 0]
    np.testing.assert_allclose(outputs["predictions"], expected, rtol=1e-6)
    np.testing.assert_allclose(losses, np.square(expected - [1, 0]), rtol=1e-5)


def test_multilabel():
    head = make_head(MultilabelHead, 3)
    head.dense.bias.assign([-1.0, 0.0, 0.0])
    targets = np.array([[1, 0, 1], [0, 0, 0]], np.float32)
    losses, outputs = head(SEQUENCE_OUTPUT, {"mine_targets": tf.constant(targets)})
    logits = outputs["logits"].numpy()
    probabilities = 1 / (1 + np.exp(-logits))
    entropy = -targets * np.log(probabilities) - (1 - targets) * np.log(1 - probabilities)
    np.testing.assert_allclose(losses, entropy.sum(axis=1), rtol=1e-5)
    assert outputs["predictions"].numpy().tolist() == (probabilities > 0.5).tolist()
    assert 0 < outputs["predictions"].numpy().sum() < 6


def test_dropout_only_with_a_key():
    head = make_head(RegressionHead, 1)
    sequence_output = np.ones((4000, 1, 2), np.float32)
    features = {"mine_targets": tf.zeros([4000])}
    head.dense.kernel.assign([[1.0], [0.0]])
    head.dense.bias.assign([0.0])
    plain = head(sequence_output, features, is_training=True).outputs["predictions"].numpy()
    assert (plain == 1).all()
    key = randomness.make_key(1, 2, "test")
    dropped = head(sequence_output, features, dropout_key=key).outputs["predictions"].numpy()
    assert set(np.round(np.unique(dropped), 5)) == {0.0, np.float32(np.round(1 / 0.9, 5))}
    assert np.mean(dropped == 0) == pytest.approx(0.1, abs=0.02)
    again = head(sequence_output, features, dropout_key=key).outputs["predictions"].numpy()
    assert (dropped == again).all()


def test_float32_under_mixed_precision():
    head = make_head(ClassificationHead, 3, keras.DTypePolicy("mixed_bfloat16"))
    head.dense.bias.assign([0.0, 1e-4, 0.0])
    sequence_output = tf.cast(SEQUENCE_OUTPUT, tf.bfloat16)
    losses, outputs = head(sequence_output, {"mine_label_ids": tf.constant([2, 0])})
    assert outputs["logits"].dtype == losses.dtype == tf.float32
    kernel = np.arange(6.0).reshape(2, 3) / 10
    expected = SEQUENCE_OUTPUT[:, 0] @ kernel + [0, 1e-4, 0]
    np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-6)
