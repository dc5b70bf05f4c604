"""The encoder and its heads, layer by layer; random streams, kernels and metrics.

Imports `electra_tf.config` and what is below it.
"""
