"""Masking strategies, one per module, named after `--masking`; `masked_batch.py` applies them.

To add one, write a subclass of `electra_tf.masking.base.MaskingStrategy` and add it to
`electra_tf.config.choices.MASKING`. Imports `electra_tf.model` and the layers below.
"""
