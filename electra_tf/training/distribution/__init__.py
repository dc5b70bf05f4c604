"""Devices and processes of a run, on `tf.distribute`.

Imports `electra_tf.model`, `electra_tf.config` and `electra_tf.util`.
"""
