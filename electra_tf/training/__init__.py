"""The training engine: step, loop, optimizer, checkpoints and log.

It is independent of pre-training and fine-tuning, which both use it. Imports
`electra_tf.model` and the layers below.
"""
