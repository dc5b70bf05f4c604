"""Hyperparameters as frozen dataclasses, and what follows from them.

Loads no TensorFlow, so that flags are checked at once. Imports `electra_tf.util` and
`electra_tf.text`.
"""
