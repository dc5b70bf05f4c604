"""Checkpoints of a run: saves, restores and finds them, and copies them to remote folders.

Imports `electra_tf.training.distribution`, `electra_tf.config` and the layers below.
"""
