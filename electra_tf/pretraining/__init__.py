"""A pre-training run, from given records to checkpoints, and the evaluation of a checkpoint.

`run` has `train` and `evaluate`. Imports all of `electra_tf` but `electra_tf.inference`; never
opens a record file.
"""
