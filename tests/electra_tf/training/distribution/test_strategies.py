"""The threads of a process with one CPU device, and those of its data."""

import subprocess
import sys

import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.training.distribution.strategies import create_strategy
from tests.processes import ROOT

ONE_CPU = """
from electra_tf.util.tensorflow_import import import_tensorflow
import_tensorflow()
import tensorflow as tf
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.training.distribution.strategies import create_strategy, distribute_batches

config = PretrainingConfig.create(data_dir="-", model_name="-", device="cpu")
strategy = create_strategy(config)
sizes = []
with_options = tf.data.Dataset.with_options

def record(self, options, **more):
    sizes.append(options.threading.private_threadpool_size)
    return with_options(self, options, **more)

tf.data.Dataset.with_options = record

def read(shard):
    dataset = tf.data.Dataset.range(40).batch(4).map(tf.abs, num_parallel_calls=4)
    return dataset.repeat().prefetch(2)

batches = iter(distribute_batches(strategy, read))

@tf.function(autograph=False)
def steps():  # steps that wait for data, whose functions need threads
    return tf.while_loop(
        lambda index, total: index < 100,
        lambda index, total: (index + 1, total + tf.reduce_sum(next(batches))),
        (tf.constant(0), tf.constant(0, tf.int64)),
    )[1]

print(strategy.num_replicas_in_sync, int(steps()), sizes[0])
print(tf.config.threading.get_inter_op_parallelism_threads())
"""


def test_one_cpu_runs_one_operation_after_another_and_reads_data_beside():
    run = subprocess.run(
        [sys.executable, "-c", ONE_CPU], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert run.stdout.split("\n")[:2] == ["1 7800 0", "1"], run.stderr


def test_several_devices_keep_their_threads():
    before = tf.config.threading.get_inter_op_parallelism_threads()
    config = PretrainingConfig.create(
        data_dir="-", model_name="-", strategy="mirrored", num_virtual_cpus=2
    )
    assert create_strategy(config).num_replicas_in_sync == 2
    assert tf.config.threading.get_inter_op_parallelism_threads() == before != 1
