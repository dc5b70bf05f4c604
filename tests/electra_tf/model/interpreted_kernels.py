"""Kernels give the values and gradients of the plain operations.

`test_gpu_kernels.py` runs these tests, in a process with TRITON_INTERPRET=1: then Triton
interprets kernels, on the CPU.
"""

import importlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.generators.sampling import DISALLOWED_LOGIT, sample_from_softmax
from electra_tf.model import heads, layer_functions, randomness
from electra_tf.model.gpu import attention, calls, rows, tiles, vocabulary
from electra_tf.model.kernels import without_fusion


class HostArray:
    """A numpy array with what Triton's interpreter asks of PyTorch's tensors."""

    def __init__(self, array: np.ndarray | None = None) -> None:
        self.array = array

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> "HostArray":
        return self

    def cpu(self) -> "HostArray":
        return self

    def new_empty(self, *_, **__) -> "HostArray":
        return HostArray()

    def set_(self, storage: "HostArray", *_) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return self.array.strides

    def copy_(self, other: "HostArray") -> None:
        del other  # the same memory


@pytest.fixture
def interpreted(monkeypatch):
    """Calls of kernels run in the interpreter, with results full of NaN before."""

    def call(module, name, operands, results, constants, launch):
        inputs = {n: HostArray(np.array(x)) for n, x in operands.items()}
        outputs = {
            n: HostArray(np.full(spec.shape, np.nan, spec.dtype.as_numpy_dtype))
            for n, spec in results.items()
        }
        kernel = getattr(importlib.import_module(f"{calls.__package__}.{module}"), name)
        assert kernel.arg_names == [*inputs, *outputs, *constants]
        kernel[launch.grid](**inputs, **outputs, **constants)
        return [tf.constant(x.array) for x in outputs.values()]

    for module in (attention, rows, vocabulary):
        monkeypatch.setattr(module, "call_kernel", call)
    monkeypatch.setattr(rows, "has_kernels", lambda *_, **__: True)


@pytest.fixture
def small_norm_tiles(monkeypatch):
    """Several tiles and programs for the rows of a test."""
    monkeypatch.setattr(tiles, "NORM_TILE_SIZE", 128)
    monkeypatch.setattr(tiles, "NORM_BACKWARD_TILE_SIZE", 64)
    monkeypatch.setattr(tiles, "NORM_BACKWARD_PROGRAMS", 3)


def normal(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(sum(shape)).normal(size=shape), tf.float32)


def key() -> tf.Tensor:
    return randomness.make_key(5, 6, "dropout")


def assert_equal(function, plain, tensors, trained):
    """Asserts that outputs, and the gradients of the first `trained` tensors, are equal."""
    found = []
    for each in (function, plain):
        with tf.GradientTape() as tape, without_fusion():
            tape.watch(tensors[:trained])
            y = each(*tensors)
            total = tf.reduce_sum(y * tf.cos(y))
        found.append([y, *tape.gradient(total, tensors[:trained])])
    for a, b in zip(*found, strict=True):
        atol = 2e-6 * max(1, np.max(np.abs(b)))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(3, 7, 48), (70, 16), (1, 1, 20)])
@pytest.mark.usefixtures("interpreted", "small_norm_tiles")
def test_add_norm(shape, rate):
    width = shape[-1]
    tensors = [normal(*shape), 2 * normal(*shape), *(normal(width) + i for i in range(3))]
    options = {"rate": rate, "epsilon": 1e-12}
    assert_equal(
        lambda *x: rows.add_norm(*x, key(), **options),
        lambda *x: layer_functions.add_norm(*x, key(), **options),
        tensors,
        trained=5,
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(3, 7, 48), (1, 1, 20)])
@pytest.mark.usefixtures("interpreted", "small_norm_tiles")
def test_norm_dropout(shape, rate):
    width = shape[-1]
    options = {"rate": rate, "epsilon": 1e-12, "dtype": "float32"}
    assert_equal(
        lambda *x: rows.norm_dropout(*x, key(), **options),
        lambda *x: layer_functions.norm_dropout(*x, key(), **options),
        [normal(*shape), normal(width), normal(width) + 1],
        trained=3,
    )


@pytest.mark.parametrize("shape", [(3, 7, 40), (9, 16), (2, 1, 150)])
@pytest.mark.usefixtures("interpreted")
def test_bias_gelu(shape, monkeypatch):
    monkeypatch.setattr(tiles, "GELU_TILE_SIZE", 256)
    monkeypatch.setattr(tiles, "GELU_BACKWARD_TILE_SIZE", 256)
    monkeypatch.setattr(tiles, "GELU_BACKWARD_PROGRAMS", 4)

    def plain(x, bias):
        return layer_functions.bias_activation(x, bias, activation="gelu")

    tensors = [3 * normal(*shape), normal(shape[-1])]
    assert_equal(
        lambda *x: rows.bias_activation(*x, activation="gelu"), plain, tensors, trained=2
    )


# One block of keys of each size; several. The last is partial, or not.
@pytest.mark.parametrize("length", [20, 32, 50, 100, 128, 150, 192])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.usefixtures("interpreted")
def test_attention(length, rate):
    batch, heads, size = 2, 2, 16
    width = 3 * heads * size
    mask = np.ones([batch, length], np.float32)
    mask[1, length // 3 :] = 0
    more = tf.constant(mask), key()

    def plain(qkv, bias):
        query, key_, value = layer_functions.split_heads(qkv, bias, num_heads=heads)
        context = layer_functions.attention(query, key_, value, *more, rate=rate)
        return layer_functions.merge_heads(context)

    assert_equal(
        lambda *x: attention.attention(*x, *more, num_heads=heads, rate=rate),
        plain,
        [normal(batch, length, width), normal(width)],
        trained=2,
    )


# Of one block of columns, and of several.
@pytest.fixture(params=[13, 64, 150])
def vocabulary_logits(request, interpreted, monkeypatch) -> tf.Tensor:
    del interpreted
    for name in ("CROSS_ENTROPY_FORWARD", "CROSS_ENTROPY_BACKWARD", "SAMPLE"):
        monkeypatch.setattr(tiles, name, tiles.VocabularyTiles(64, 1))
    logits = 5 * normal(2, 3, request.param)
    # Two highest of a row, and none that is finite but one.
    tied = tf.tensor_scatter_nd_update(logits, [[0, 0, 4], [0, 0, 12]], [40.0, 40.0])
    only = tf.where(tf.range(request.param) == 7, 0.5, -np.inf)
    return tf.tensor_scatter_nd_update(tied, [[1, 2]], only[None])


@pytest.mark.usefixtures("interpreted")
def test_tokens_of_logits_that_are_no_numbers_are_in_the_vocabulary():
    """A run ends with its NaN loss, not with a read beyond the embeddings."""
    logits = np.zeros([1, 3, 20], np.float32)
    logits[0, 0], logits[0, 1, 3] = np.nan, np.nan
    targets = tf.ones([1, 3], tf.int32)
    losses, predictions = vocabulary.cross_entropy(tf.constant(logits), targets)
    np.testing.assert_array_equal(np.isnan(losses), [[True, True, False]])
    given = tf.fill([1, 3], -1), key(), 0, 1.0
    tokens = vocabulary.sample(tf.constant(logits), *given, disallowed_logit=DISALLOWED_LOGIT)
    assert np.all((predictions.numpy() >= 0) & (predictions.numpy() < 20))
    assert np.all((tokens.numpy() >= 0) & (tokens.numpy() < 20))


def test_cross_entropy(vocabulary_logits):
    targets = tf.constant([[12, 3, 5], [0, 7, 7]])
    assert_equal(
        lambda x: vocabulary.cross_entropy(x, targets)[0],
        lambda x: heads.softmax_cross_entropy(x, targets),
        [vocabulary_logits],
        trained=1,
    )
    _, predictions = vocabulary.cross_entropy(vocabulary_logits, targets)
    expected = tf.argmax(vocabulary_logits, -1, output_type=tf.int32)
    np.testing.assert_array_equal(predictions, expected)
    assert predictions[0, 0] == 4


@pytest.mark.usefixtures("interpreted")
def test_targets_outside_of_the_vocabulary_end_the_run():
    losses, _ = vocabulary.cross_entropy(normal(3, 20), tf.constant([19, 20, -1]))
    np.testing.assert_array_equal(np.isnan(losses), [False, True, True])


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples(vocabulary_logits, temperature):
    # The most likely tokens of the first row; none of the second.
    disallow = tf.argmax(vocabulary_logits, -1, output_type=tf.int32) - tf.constant([[0], [99]])
    found, expected = [], []
    for example in range(20):
        found.append(
            vocabulary.sample(
                vocabulary_logits,
                disallow,
                key(),
                example * 3,
                temperature,
                disallowed_logit=DISALLOWED_LOGIT,
            )
        )
        with without_fusion():
            given = {"temperature": temperature, "disallow": disallow, "first_example": example}
            expected.append(sample_from_softmax(vocabulary_logits, key(), **given))
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 5
