"""How starts of training end: each child process compiles and runs the first step.

    python -m benchmarks.training_starts --starts 300

Children are forked after the import of TensorFlow and before its first operation, so that a
start takes a few seconds of CPU. All should exit with status 0 and the same weights.
"""

import collections
import hashlib
import os
import signal
import sys
import time
import traceback

from absl import app, flags

from benchmarks.side_by_side import NO_GPU

STARTS = flags.DEFINE_integer("starts", 300, "Number of processes.", lower_bound=1)
SIZE = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}


def train_one_step() -> str:
    """Trains a tiny model from random weights; returns the hash of its weights."""
    from benchmarks.random_run import create_run
    from electra_tf.config.pretraining import PretrainingConfig

    config = PretrainingConfig.create(
        data_dir="unused",
        model_name="start",
        model_dir="unused",
        vocab_size=1100,
        embedding_size=8,
        model_hparam_overrides=SIZE,
        generator_hidden_size=0.5,
        max_seq_length=16,
        train_batch_size=8,
        num_train_steps=2,
    )
    run = create_run(config)
    run.steps.run(run.iterator, 1)
    digest = hashlib.sha256()
    for variable in run.model.trainable_variables:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()[:16]


def start() -> tuple[str, str]:
    """Forks a child; returns how it ended, and the hash of its weights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, train_one_step().encode())
            status = 0
        except Exception:
            traceback.print_exc()
        os._exit(status)  # leaves the parent's buffers and exit handlers alone
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        weights = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return signal.Signals(-code).name if code < 0 else f"status {code}", weights


def main(_: list[str]) -> None:
    """Prints how many starts ended in which way."""
    os.environ.update(NO_GPU)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow  # noqa: F401

    import electra_tf.model_builder  # noqa: F401

    ends, weights = collections.Counter(), collections.Counter()
    begin = time.monotonic()
    for number in range(1, STARTS.value + 1):
        end, hash_of_weights = start()
        ends[end] += 1
        weights[hash_of_weights or "none"] += 1
        if number % 25 == 0 or number == STARTS.value:
            seconds = time.monotonic() - begin
            print(f"{number} starts in {seconds:.0f} s: {dict(ends)}", flush=True)
    print("Weights:", dict(weights))
    sys.exit(0 if set(ends) == {"status 0"} and len(weights) == 1 else 1)


if __name__ == "__main__":
    app.run(main)
