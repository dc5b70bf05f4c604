"""What forks have imported (`fork_server`, `faults.starts`); no device is initialized."""

import gc
import importlib

from electra_tf.util.tensorflow_import import import_tensorflow

import_tensorflow()
for name in (
    "electra_tf.inference.export.run",
    "electra_tf.interop.conversion",
    "electra_tf.pretraining.run",
    "finetune.run",
    "flags.programs",
    "flags.records",
):
    importlib.import_module(name)
# Forked processes share what is imported, and spare their garbage collector a look at it.
gc.collect()
gc.freeze()
gc.set_threshold(100_000, 50, 100)
