"""Monitoring of a run: its log, experiment trackers, and diagnoses of its health.

Imports `electra_tf.training.variable_groups`, `electra_tf.config`, `electra_tf.text` and
`electra_tf.util`.
"""
