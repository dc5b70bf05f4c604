"""What all tests share: TensorFlow kept quiet, and a tiny run to train."""

import ctypes
import functools
import gc
import os
import pathlib
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.util.tensorflow_import import import_tensorflow

# XLA compiles in less than half of the time and memory; its kernels are slower, and the tests'
# models tiny. Your own XLA_FLAGS win, and "" gives the defaults.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
import_tensorflow()

NUM_VIRTUAL_CPUS = 2
# The files of the longest tests.
FIRST = (
    "test_readme.py",
    "test_study.py",
    "test_check_reference.py",
    "test_distributed_pretraining.py",
    "test_equal_splits.py",
    "test_phases.py",
    "test_distributed_finetuning.py",
    "test_kills.py",
    "test_storage.py",
    "test_wheel.py",
)


def _split_cpu() -> None:
    """Makes two devices of the CPU, once and for all, for tests of `--strategy=mirrored`."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * NUM_VIRTUAL_CPUS
    )


def _skip_grappler() -> None:
    """Runs graphs as they were traced: Grappler takes a quarter of the time of a tiny run.

    The programs that tests start as processes of their own have it, as users do.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def _skip_stacks() -> None:
    """Leaves out the Python stack of each traced operation, about a sixth of a short run.

    TensorFlow names it in errors of the operation.
    """
    from tensorflow.python.framework import ops

    ops._create_c_op = functools.partial(ops._create_c_op, extract_traceback=False)


def _keep_threads() -> None:
    """Initializes TensorFlow, after which no run changes the threads of the others.

    So runs do not divide their batches, whichever test comes first; those of the programs do.
    """
    import tensorflow as tf

    tf.config.list_logical_devices()


_split_cpu()
_skip_grappler()
_skip_stacks()
_keep_threads()

ROOT = pathlib.Path(__file__).parents[1]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCAB_SIZE = 40
SEQ_LENGTH = 16
NUM_RECORDS = 50


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest tests first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in FIRST)


def pytest_collection_finish() -> None:
    """Spares the garbage collector what is imported, which takes it a quarter of a second.

    It also runs less often, as tracing a graph makes many objects that stay; `free_graphs`
    collects those.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.fixture
def unfused() -> Iterator[None]:
    """Runs kernels as they are: XLA compiles one for longer than a tiny model runs."""
    from electra_tf.model.kernels import without_fusion

    with without_fusion():
        yield


@pytest.fixture
def heeded_sigint() -> Iterator[None]:
    """Heeds SIGINT, here and in programs started here, even where pytest runs with it ignored.

    A shell script starts `pytest &` so, and what a process ignores its children ignore.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Graphs of about so much memory stay until they are freed, which takes half a second.
FREED_BYTES = 250 << 20
_kept_bytes = 0


@pytest.fixture(scope="module", autouse=True)
def release_memory() -> Iterator[None]:
    """Frees the graphs that the tests of a module traced, about 70 MB a training run."""
    yield
    free_graphs()


@pytest.fixture
def own_graphs() -> Iterator[None]:
    """Frees memory after each test of a long module whose tests share no models."""
    yield
    free_graphs()


def free_graphs() -> None:
    """Frees the graphs traced so far; a model that is still in use cannot be traced again."""
    global _kept_bytes
    used = resident_bytes()
    if used is None or used > _kept_bytes + FREED_BYTES:
        _free_graphs()
        _kept_bytes = resident_bytes() or 0


def resident_bytes() -> int | None:
    """Returns the memory of this process; None where Linux does not tell it."""
    statm = pathlib.Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_graphs() -> None:
    from tensorflow.python.framework import ops

    # `tf.custom_gradient` registers a function for each call in a graph, which holds the graph.
    gradients = ops.gradient_registry._registry
    for name in [name for name in gradients if name.startswith("CustomGradient-")]:
        del gradients[name]
    gc.collect()
    # glibc keeps freed memory for the process unless told otherwise.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory) -> pathlib.Path:
    """A folder with `vocab.txt` and 50 records of 16 tokens in two shards."""
    folder = tmp_path_factory.mktemp("data")
    write_tiny_data(folder)
    return folder


def write_tiny_data(folder: pathlib.Path) -> None:
    """Writes what `tiny_data` has."""
    import tensorflow as tf

    words = [f"w{i}" for i in range(VOCAB_SIZE - len(SPECIAL_TOKENS))]
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]) + "\n")
    records = folder / "pretrain_tfrecords"
    records.mkdir()
    generator = np.random.default_rng(7)
    for shard in range(2):
        path = records / f"pretrain_data.tfrecord-{shard}-of-2"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(NUM_RECORDS // 2):
                writer.write(make_record(generator, SEQ_LENGTH))


def make_record(generator: np.random.Generator, seq_length: int) -> bytes:
    """Returns a serialized example whose words follow each other in order."""
    import tensorflow as tf

    length = int(generator.integers(seq_length // 2, seq_length + 1))
    first = int(generator.integers(0, VOCAB_SIZE - 5))
    words = [5 + (first + i) % (VOCAB_SIZE - 5) for i in range(length - 2)]
    padding = [0] * (seq_length - length)
    features = {
        "input_ids": [2, *words, 3, *padding],
        "input_mask": [1] * length + padding,
        "segment_ids": [0] * seq_length,
    }
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                for name, values in features.items()
            }
        )
    ).SerializeToString()


@pytest.fixture(scope="session")
def demo_vocab_file() -> pathlib.Path:
    return ROOT / "demo/vocab.txt"


@pytest.fixture(scope="session")
def vocabulary(demo_vocab_file) -> Vocabulary:
    return load_vocabulary(demo_vocab_file)


@pytest.fixture(scope="session")
def bert_vocabulary() -> Vocabulary:
    return load_vocabulary(ROOT / "recipes/vocab/bert_uncased_vocab.txt")


@pytest.fixture
def num_layers() -> int:
    """Of `make_config`; what tells layers apart has a fixture with more."""
    return 1


@pytest.fixture
def make_config(tiny_data, tmp_path, num_layers) -> Callable[..., PretrainingConfig]:
    """Returns a function that makes the configuration of a tiny run."""

    def make(**overrides) -> PretrainingConfig:
        settings = tiny_settings(tiny_data, tmp_path, num_layers)
        return PretrainingConfig.create(**{**settings, **overrides})

    return make


def tiny_settings(data_dir: pathlib.Path, model_dir: pathlib.Path, num_layers: int = 1) -> dict:
    """Returns the hyperparameters of a model that trains in a second."""
    return {
        "data_dir": str(data_dir),
        "model_name": "tiny",
        "model_dir": str(model_dir / "model"),
        "vocab_size": VOCAB_SIZE,
        "embedding_size": 8,
        "model_hparam_overrides": {
            "hidden_size": 16,
            "num_hidden_layers": num_layers,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": SEQ_LENGTH,
        },
        "generator_hidden_size": 0.5,
        "max_seq_length": SEQ_LENGTH,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "num_train_steps": 6,
        "num_warmup_steps": 2,
        "iterations_per_loop": 2,
        "save_checkpoints_steps": 2,
        "shuffle_buffer_size": 16,
        "learning_rate": 1e-3,
    }
