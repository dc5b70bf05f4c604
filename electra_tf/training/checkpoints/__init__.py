"""Checkpoints of a run: saved, restored, found, written whole, and copied to remote folders.

Imports `electra_tf.training.distribution`, `electra_tf.config` and the layers below.
"""
