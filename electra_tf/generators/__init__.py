"""Generators of replacement tokens, sampling, and weight sharing with the discriminator.

To add a generator, write a subclass of `electra_tf.generators.base.Generator` and add it to
`electra_tf.config.choices.GENERATORS`. Imports `electra_tf.masking`, `electra_tf.model` and the
layers below.
"""
