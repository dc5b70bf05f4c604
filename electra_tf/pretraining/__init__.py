"""Pre-training, from given batches to checkpoints, and evaluation of a checkpoint.

`run` has `train` and `evaluate`. It never opens a record file. Imports `electra_tf.interop` and
the layers below.
"""
