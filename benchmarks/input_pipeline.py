r"""Measures how fast the input pipeline delivers batches that nobody computes with.

    python -m benchmarks.input_pipeline

Builds records from a corpus, unless `--pretrain_tfrecords` names some, and reads them with
and without shuffling. `--consumed` is the rate of the model that the pipeline has to feed.
"""

import contextlib
import pathlib
import tempfile
import time
from collections.abc import Iterator

from absl import flags

from flags.command_line import program

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "demo/corpus", "Text to build records from.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "demo/vocab.txt", "WordPiece vocabulary.")
_TFRECORDS = flags.DEFINE_string("pretrain_tfrecords", None, "Records to read instead.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples per batch.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "Tokens per example.", lower_bound=5)
_SECONDS = flags.DEFINE_float("seconds", 5.0, "Duration of each measurement.", lower_bound=0.1)
_CONSUMED = flags.DEFINE_float(
    "consumed", 34.0, "Examples per second that the model takes.", lower_bound=0.0
)


def main() -> None:
    """Prints the table."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    print(f"Batches of {_BATCH_SIZE.value} x {_LENGTH.value}; needed: {_CONSUMED.value:.0f}/s")
    print("  order                     examples/s   times what is needed")
    with _records() as patterns:
        for name, shuffle_buffer_size in (("of the files", 0), ("shuffled in 10,000", 10_000)):
            rate = measure(patterns, shuffle_buffer_size)
            print(f"  {name:<24}{rate:>12,.0f}{rate / _CONSUMED.value:>19,.0f}x")


def measure(patterns: str, shuffle_buffer_size: int) -> float:
    """Returns examples per second, the filling of the shuffle buffer left out."""
    from pretrain_data.records.reader import read_pretraining_records

    batches = iter(
        read_pretraining_records(
            patterns,
            max_seq_length=_LENGTH.value,
            batch_size=_BATCH_SIZE.value,
            shuffle_buffer_size=shuffle_buffer_size,
        )
    )
    next(batches)
    start = time.perf_counter()
    num_batches = 0
    while time.perf_counter() - start < _SECONDS.value:
        next(batches)
        num_batches += 1
    return num_batches * _BATCH_SIZE.value / (time.perf_counter() - start)


@contextlib.contextmanager
def _records() -> Iterator[str]:
    from pretrain_data.build.dataset import CorpusBuildConfig, build_pretraining_data

    if _TFRECORDS.value:
        yield _TFRECORDS.value
        return
    with tempfile.TemporaryDirectory() as directory:
        config = CorpusBuildConfig(
            pathlib.Path(_CORPUS_DIR.value),
            pathlib.Path(_VOCAB_FILE.value),
            pathlib.Path(directory),
            max_seq_length=_LENGTH.value,
        )
        build_pretraining_data(config, print_fn=lambda message: None)
        yield f"{directory}/pretrain_data.tfrecord*"


if __name__ == "__main__":
    program.run(main)
