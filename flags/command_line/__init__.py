"""What all programs share: command line, standard streams, error messages, exit statuses.

Imports `electra_tf.util` and `flags.remote`; loads no TensorFlow.
"""
