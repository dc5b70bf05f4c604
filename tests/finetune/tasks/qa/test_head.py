"""The head against the formula spelled out, and what must not change its outputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.kernels import without_fusion
from finetune.tasks.qa.head import QAHead

HIDDEN, LENGTH, BEAM = 6, 9, 3
CONFIGURATIONS = [
    {},
    {"joint_prediction": False},
    {"answerable_uses_start_logits": False, "answerable_weight": 0.25},
    {"answerable_classifier": False},
]


def make_head(**settings) -> QAHead:
    """Returns a head whose biases are random too, for 0 would hide mistakes."""
    keras.utils.set_random_seed(3)
    with keras.name_scope("task_specific"):
        head = QAHead(HIDDEN, beam_size=BEAM, name="squad", **settings)
    for variable in head.trainable_variables:
        if variable.name == "bias":
            variable.assign(np.random.default_rng(1).normal(size=variable.shape))
    return head


def make_batch(length: int = LENGTH) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns two rows: 9 tokens with a context from 3 on, and 6 from 2 on."""
    hidden = np.random.default_rng(0).normal(size=(2, LENGTH, HIDDEN)).astype(np.float32)
    hidden = np.pad(hidden, [(0, 0), (0, length - LENGTH), (0, 0)], constant_values=7)
    positions = np.arange(length)
    input_mask = np.stack([positions < 9, positions < 6]).astype(np.int32)
    segment_ids = np.stack([positions >= 3, positions >= 2]) * input_mask
    features = {
        "input_mask": tf.constant(input_mask),
        "segment_ids": tf.constant(segment_ids.astype(np.int32)),
        "squad_start_positions": tf.constant([5, 0]),
        "squad_end_positions": tf.constant([7, 0]),
        "squad_is_impossible": tf.constant([0, 1]),
    }
    return tf.constant(hidden), features


def affine(layer, x: np.ndarray) -> np.ndarray:
    return x @ layer.kernel.numpy() + layer.bias.numpy()


def gelu(x: np.ndarray) -> np.ndarray:
    return tf.nn.gelu(x).numpy()


def log_softmax(x: np.ndarray) -> np.ndarray:
    return tf.nn.log_softmax(x).numpy()


def plain_end_logits(head: QAHead, hidden: np.ndarray, start: int) -> np.ndarray:
    """Returns one row's end logits given a start: start state beside each end state."""
    pairs = np.concatenate([np.tile(hidden[start], (len(hidden), 1)), hidden], axis=-1)
    return affine(head.end, gelu(affine(head.end_hidden, pairs)))[:, 0]


@pytest.mark.parametrize("settings", CONFIGURATIONS)
def test_losses_and_outputs_follow_the_formula(settings):
    head = make_head(**settings)
    hidden, features = make_batch()
    output = head(hidden, features)
    training = head(hidden, features, is_training=True)
    np.testing.assert_allclose(output.losses, training.losses, rtol=1e-6)
    for row, (start, end, impossible) in enumerate(((5, 7, 0), (0, 0, 1))):
        states = hidden.numpy()[row]
        allowed = features["segment_ids"].numpy()[row] == 1
        allowed[0] = True
        mask = np.where(allowed, 0, -1000).astype(np.float32)
        start_logits = affine(head.start, states)[:, 0] + mask
        if head.joint_prediction:
            end_logits = plain_end_logits(head, states, start) + mask
        else:
            end_logits = affine(head.end, states)[:, 0] + mask
        loss = -(log_softmax(start_logits)[start] + log_softmax(end_logits)[end]) / 2
        logit = 0.0
        if head.answerable_classifier:
            x = states[0]
            if head.answerable_hidden is not None:
                expected = np.exp(log_softmax(start_logits)) @ states
                x = gelu(affine(head.answerable_hidden, np.concatenate([x, expected])))
            logit = affine(head.answerable, x)[0]
            weight = settings.get("answerable_weight", 0.5)
            loss += weight * np.logaddexp(0, -logit if impossible else logit)
        np.testing.assert_allclose(training.outputs["start_logits"][row], start_logits, 1e-5)
        np.testing.assert_allclose(training.outputs["end_logits"][row], end_logits, 1e-5)
        np.testing.assert_allclose(output.outputs["answerable_logit"][row], logit, 1e-5)
        np.testing.assert_allclose(output.losses[row], loss, 1e-5)


def test_beams_hold_the_likeliest_ends_of_the_likeliest_starts():
    head = make_head()
    hidden, features = make_batch()
    outputs = {k: v.numpy() for k, v in head(hidden, features).outputs.items()}
    assert "end_logits" not in outputs  # they would give the gold start away
    log_probs = log_softmax(outputs["start_logits"][0])
    starts = np.argsort(-log_probs)[:BEAM]
    np.testing.assert_array_equal(outputs["start_top_index"][0], starts)
    np.testing.assert_allclose(outputs["start_top_log_probs"][0], log_probs[starts], 1e-5)
    mask = np.array([0, -1000, -1000] + [0] * 6, np.float32)
    for rank, start in enumerate(starts):
        logits = plain_end_logits(head, hidden.numpy()[0], start) + mask
        ends = np.argsort(-logits)[:BEAM]
        np.testing.assert_array_equal(outputs["end_top_index"][0, rank], ends)
        np.testing.assert_allclose(
            outputs["end_top_log_probs"][0, rank], log_softmax(logits)[ends], 1e-4
        )


@pytest.mark.parametrize("settings", CONFIGURATIONS[:2])
def test_padding_changes_nothing(settings):
    head = make_head(**settings)
    short, padded = (head(*make_batch(length)) for length in (LENGTH, LENGTH + 5))
    np.testing.assert_allclose(short.losses, padded.losses, rtol=1e-5)
    for name, value in short.outputs.items():
        other = padded.outputs[name]
        if name in ("start_logits", "end_logits"):
            other = other[:, :LENGTH]
        np.testing.assert_allclose(value, other, rtol=1e-5, err_msg=name)


def test_the_beam_is_no_wider_than_the_input_in_graphs_too():
    head = make_head()
    head.beam_size = 50
    hidden, features = make_batch()
    signature = (
        tf.TensorSpec([None, None, HIDDEN]),
        {name: tf.TensorSpec([None] * len(v.shape), v.dtype) for name, v in features.items()},
    )
    run = tf.function(head.__call__, input_signature=signature, autograph=False)
    output = run(hidden, features)
    assert output.outputs["end_top_index"].shape == (2, LENGTH, LENGTH)
    with without_fusion():
        plain = tf.function(head.__call__, input_signature=signature, autograph=False)
        expected = plain(hidden, features).outputs["end_top_log_probs"]
    actual = output.outputs["end_top_log_probs"]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, {"dense", "qa_hidden", "dense_1", "dense_2", "dense_3"}),
        (CONFIGURATIONS[1], {"dense", "dense_1", "dense_2", "dense_3"}),
        (CONFIGURATIONS[2], {"dense", "qa_hidden", "dense_1", "dense_2"}),
        (CONFIGURATIONS[3], {"dense", "qa_hidden", "dense_1"}),
    ],
)
def test_variables_have_the_authors_names(settings, names):
    head = make_head(**settings)
    mapping = head.named_variables()
    assert {name.split("/")[2] for entry in mapping for name in entry.names} == names
    assert {id(entry.variable) for entry in mapping} == {
        id(variable) for variable in head.trainable_variables
    }
    for entry in mapping:
        assert entry.names[0].startswith("task_specific/squad/")
        assert entry.variable.dtype == "float32"


def test_bfloat16_stays_near_float32():
    hidden, features = make_batch()
    outputs = []
    for dtype in ("float32", "mixed_bfloat16"):
        output = make_head(dtype=keras.DTypePolicy(dtype))(hidden, features)
        assert output.losses.dtype == tf.float32
        outputs.append(output.losses.numpy())
    np.testing.assert_allclose(*outputs, rtol=0.03)
