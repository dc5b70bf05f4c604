"""What every program has: its command line, streams, errors and exit statuses.

Imports `electra_tf.util` and `flags.remote`; loads no TensorFlow.
"""
