"""Hyperparameters as frozen dataclasses: defaults, validation and derived shapes.

Does not import TensorFlow, so flags are checked instantly. Imports `electra_tf.text` and
`electra_tf.util`.
"""
