"""`run_pretraining.py` in one or more processes on loopback, each on cores of its own."""

import dataclasses
import functools
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.random_run import SPECIAL
from benchmarks.side_by_side import NO_GPU
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError

PROGRAM = pathlib.Path(__file__).parents[1] / "run_pretraining.py"
NUM_RECORDS = 256
# The first measured turn, and with it the compilation, is left out of the rate.
TURNS = 4
LOG_FILE = "train_log.jsonl"
TIMEOUT_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class WorkerRun:
    """How fast the program trained.

    Attributes:
        num_workers: processes.
        cores_each: that each of them may use.
        batch: sequences a step, over all processes.
        sequences_per_second: over all processes, in the fastest turn.
        turns: the same of every turn after the first.
    """

    num_workers: int
    cores_each: int
    batch: int
    sequences_per_second: float
    turns: tuple[float, ...]


def measure_workers(
    config: PretrainingConfig,
    cores: Sequence[Sequence[int]],
    folder: pathlib.Path,
    *,
    num_steps: int,
) -> WorkerRun:
    """Trains on random records and returns the rate that the chief logs.

    Args:
        config: sizes and precision; the batch is that over all processes.
        cores: the cores of each process; more than one process is `multi_worker`.
        folder: gets records, vocabulary, checkpoints and logs.
        num_steps: of a turn.

    Raises:
        UserError: a process failed or took too long.
    """
    data_dir = folder / f"{config.max_seq_length}"
    if not data_dir.exists():
        write_random_records(data_dir, config)
    name = f"{len(cores)}_on_{len(cores[0])}"
    command = [
        *(sys.executable, str(PROGRAM), f"--data_dir={data_dir}", f"--model_name={name}"),
        f"--model_hparam_overrides={json.dumps(dict(config.model_hparam_overrides))}",
        f"--vocab_size={config.vocab_size}",
        f"--max_seq_length={config.max_seq_length}",
        f"--train_batch_size={config.train_batch_size}",
        f"--precision={config.precision}",
        f"--num_train_steps={TURNS * num_steps}",
        f"--iterations_per_loop={num_steps}",
        f"--log_steps={num_steps}",
        "--save_checkpoints_steps=1000000",
    ]
    workers = [f"127.0.0.1:{port}" for port in free_ports(len(cores))]
    processes = []
    print(f"{len(cores)} processes on {len(cores[0])} cores …", file=sys.stderr, flush=True)
    try:
        for i, own_cores in enumerate(cores):
            place = []
            if len(cores) > 1:
                place = ["--strategy=multi_worker", f"--workers={','.join(workers)}"]
                place.append(f"--task_index={i}")
            with (folder / f"{name}_{i}.log").open("w") as output:
                processes.append(
                    subprocess.Popen(
                        [*command, *place],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env={**os.environ, **NO_GPU},
                        preexec_fn=functools.partial(os.sched_setaffinity, 0, own_cores),
                    )
                )
        wait(processes, [folder / f"{name}_{i}.log" for i in range(len(cores))])
    finally:
        for process in processes:
            process.kill()
            process.wait()
    log = data_dir / "models" / name / LOG_FILE
    records = [json.loads(line) for line in log.read_text().splitlines()]
    turns = [r["sequences_per_second"] for r in records if r["kind"] == "train"][1:]
    return WorkerRun(
        len(cores), len(cores[0]), config.train_batch_size, max(turns), tuple(turns)
    )


def wait(processes: Sequence[subprocess.Popen], logs: Sequence[pathlib.Path]) -> None:
    """Returns when all processes have ended well.

    Raises:
        UserError: one has not, or they take longer than `TIMEOUT_SECONDS`.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(process.poll() is None for process in processes):
        failed = [i for i, process in enumerate(processes) if process.poll()]
        if failed or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    for process, log in zip(processes, logs, strict=True):
        if process.poll() is None and time.monotonic() > deadline:
            raise UserError(f"{PROGRAM.name} took more than {TIMEOUT_SECONDS} s")
        if process.poll():
            said = log.read_text(errors="replace").strip()[-2000:]
            raise UserError(f"{PROGRAM.name} ended with status {process.returncode}: {said}")


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def write_random_records(data_dir: pathlib.Path, config: PretrainingConfig) -> None:
    """Writes a vocabulary and full-length records of random words in two files."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    first = SPECIAL["first_ordinary"]
    words = [f"word{i}" for i in range(config.vocab_size)]
    named = {0: "[PAD]", 100: "[UNK]"}
    named |= {SPECIAL[name]: f"[{name.upper()}]" for name in ("cls", "sep", "mask")}
    for i, token in named.items():
        words[i] = token
    records = data_dir / "pretrain_tfrecords"
    records.mkdir(parents=True)
    (data_dir / "vocab.txt").write_text("\n".join(words) + "\n")
    generator = np.random.default_rng(config.seed)
    length = config.max_seq_length
    for shard in range(2):
        path = str(records / f"pretrain_data.tfrecord-{shard}-of-2")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(NUM_RECORDS // 2):
                ids = generator.integers(first, config.vocab_size, length)
                ids[0], ids[-1] = SPECIAL["cls"], SPECIAL["sep"]
                features = {
                    "input_ids": ids,
                    "input_mask": np.ones_like(ids),
                    "segment_ids": np.zeros_like(ids),
                }
                lists = {
                    name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                    for name, values in features.items()
                }
                example = tf.train.Example(features=tf.train.Features(feature=lists))
                writer.write(example.SerializeToString())
