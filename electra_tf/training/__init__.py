"""The training engine: step, loop, optimizer, checkpoints and log.

It serves pre-training and fine-tuning and knows neither. Imports `electra_tf.model` and
what is below it.
"""
