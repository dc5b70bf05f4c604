"""Encoder, embeddings and heads; random streams, fused kernels and metrics.

Imports `electra_tf.config` and the layers below.
"""
