"""What a step on two devices spends on computation, and on the all-reduce and waiting.

    python -m benchmarks.several_devices

The cores of this machine are divided in halves. In each of `--rounds`, these run by turns:

- one device with the whole batch on all cores;
- two devices with half of the batch each: virtual devices of one process, and processes on
  loopback with half of the cores each;
- the computation of the two: processes of one device each with half of the batch and of the
  cores, at the same time and independent of each other;
- the all-reduce of the gradients alone, in either of the two.

What a step takes longer than the computation is waiting for the other device and the part of
the all-reduce that the backward pass does not hide.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence

from absl import flags

from benchmarks.random_run import create_run
from benchmarks.side_by_side import NUM_CORES, Child, describe_machine, our_command
from benchmarks.worker_processes import free_ports
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from flags.command_line import program

STEP, ALL_REDUCE = "step", "all-reduce"
ONE, DEVICES, PROCESSES, HALVES = "one device", "two devices", "two processes", "halves"


def define_flags() -> None:
    """Defines the flags of this program."""
    flags.DEFINE_enum("model_size", "small", ["small", "base"], "Size of the model.")
    flags.DEFINE_integer("seq_length", 128, "Tokens per row.", lower_bound=8)
    flags.DEFINE_integer("batch_size", 16, "Rows per step, an even number.", lower_bound=2)
    flags.DEFINE_string("precision", "float32", "As in pre-training.")
    flags.DEFINE_integer("steps", 3, "Steps per turn.", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "Turns of each.", lower_bound=1)


def main() -> None:
    """Prints the table."""
    values = flags.FLAGS
    if values.batch_size % 2:
        raise UserError(f"--batch_size={values.batch_size} cannot be halved")
    if NUM_CORES < 2:
        raise UserError("two devices need two cores")
    config = PretrainingConfig.create(
        data_dir="unused",
        model_name="several_devices",
        model_size=values.model_size,
        max_seq_length=values.seq_length,
        train_batch_size=values.batch_size,
        precision=values.precision,
    )
    print(describe_machine(None))
    print(table(measure(config, values.steps, values.rounds)))


def measure(
    config: PretrainingConfig, num_steps: int, num_rounds: int
) -> dict[tuple[str, str], list[float]]:
    """Returns the seconds of a step or an all-reduce in each round, by setting and what.

    Raises:
        UserError: a process failed.
    """
    cores = sorted(os.sched_getaffinity(0))
    halves = cores[: len(cores) // 2], cores[len(cores) // 2 :]
    half = dataclasses.replace(config, train_batch_size=config.train_batch_size // 2)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    devices = dataclasses.replace(config, strategy="mirrored", num_virtual_cpus=2)
    workers = [
        dataclasses.replace(config, strategy="multi_worker", workers=addresses, task_index=i)
        for i in range(2)
    ]
    places = {
        ONE: [(config, cores)],
        DEVICES: [(devices, cores)],
        PROCESSES: [*zip(workers, halves, strict=True)],
        HALVES: [(half, own) for own in halves],
    }
    turns = [(name, STEP) for name in places]
    turns += [(name, ALL_REDUCE) for name in (DEVICES, PROCESSES)]
    seconds: dict[tuple[str, str], list[float]] = {turn: [] for turn in turns}
    with contextlib.ExitStack() as stack:
        children = {name: _start(name, kids, stack) for name, kids in places.items()}
        for name, what in turns:
            _ask(children[name], what, 1)  # compiles
        for _ in range(num_rounds):
            for name, what in turns:
                seconds[name, what].append(_ask(children[name], what, num_steps))
    return seconds


def table(seconds: dict[tuple[str, str], list[float]]) -> str:
    """Returns the medians as a table in Markdown."""
    median = {turn: statistics.median(values) for turn, values in seconds.items()}
    computation = median[HALVES, STEP]
    rows = [[ONE, f"{median[ONE, STEP]:.3f}", "1.00", "-", "-", "-"]]
    for name in (DEVICES, PROCESSES):
        step = median[name, STEP]
        rows.append(
            [
                name,
                f"{step:.3f}",
                f"{step / median[ONE, STEP]:.2f}",
                f"{computation:.3f}",
                f"{step - computation:.3f}",
                f"{median[name, ALL_REDUCE]:.3f}",
            ]
        )
    header = ["", "step, s", "relative", "computation, s", "the rest, s", "all-reduce alone, s"]
    return markdown_table(header, rows, text_columns=1)


def serve(config_json: str, cores_json: str) -> None:
    """Is a child: each line says what to do, and how often; answers the seconds of one."""
    os.sched_setaffinity(0, json.loads(cores_json))
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    run = create_run(PretrainingConfig(**json.loads(config_json)))
    strategy, shapes = run.strategy, [v.shape for v in run.model.trainable_variables]

    def reduce_once(value: tf.Tensor) -> tf.Tensor:
        sums = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, [tf.fill(shape, value) for shape in shapes]
        )
        return tf.add_n([tf.reshape(each, [-1])[0] for each in sums])

    all_reduce = tf.function(
        lambda value: strategy.run(reduce_once, args=(value,)), autograph=False
    )
    for line in sys.stdin:
        what, times = line.split()
        start = time.perf_counter()
        if what == STEP:
            run.steps.run(run.iterator, int(times))
            run.steps.read_metrics()
        else:
            for _ in range(int(times)):
                strategy.experimental_local_results(all_reduce(tf.constant(1.0)))[0].numpy()
        print(json.dumps((time.perf_counter() - start) / int(times)), flush=True)


def _start(
    name: str,
    kids: Sequence[tuple[PretrainingConfig, Sequence[int]]],
    stack: contextlib.ExitStack,
) -> list[Child]:
    children = []
    for config, cores in kids:
        command = our_command("several_devices", config.to_json(), json.dumps([*cores]))
        children.append(Child(name, command))
        stack.callback(children[-1].stop)
    return children


def _ask(children: Sequence[Child], what: str, times: int) -> float:
    """Returns the seconds that the slowest of these children takes for one."""
    with concurrent.futures.ThreadPoolExecutor(len(children)) as threads:
        return max(threads.map(lambda child: child.ask(f"{what} {times}"), children))


if __name__ == "__main__":
    define_flags()
    program.run(main)
