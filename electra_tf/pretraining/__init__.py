"""A pre-training run, from given records to checkpoints, and the evaluation of a checkpoint.

`electra_tf.pretraining.run` has both, `train` and `evaluate`. Imports all of `electra_tf` but `electra_tf.inference`; never
opens a record file.
"""

from electra_tf.pretraining.run import evaluate, train

__all__ = ["evaluate", "train"]
