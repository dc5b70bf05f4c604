"""The training engine: step, loop, optimizer, checkpoints and log.

It is independent of pre-training and fine-tuning, which both use it. `restart_limit` stops runs
that a cluster restarts without progress. Imports `electra_tf.model` and the layers below.
"""
