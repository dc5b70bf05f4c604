"""Encoder, embeddings and heads; random streams, fused kernels and metrics.

An `encoder` consists of `embeddings` and `layers`, which have the weights; what they compute is
in `layer_functions`, whose functions `kernels` and `compilation` compile. `randomness` has all
random numbers, `batch_types` the inputs and outputs of the parts of a model.

Imports `electra_tf.config` and the layers below.
"""
