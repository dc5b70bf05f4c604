"""Generators of replacement tokens, and weight sharing with the discriminator.

Imports `electra_tf.model`, `electra_tf.masking` and the layers below.
"""
