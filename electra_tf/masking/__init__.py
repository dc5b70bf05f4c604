"""Masking strategies, one per module, named after `--masking`; `masked_batch.py` applies them.

`units.py` and `word_list.py` are for strategies that mask words. To add a strategy, write a
subclass of `electra_tf.masking.base.MaskingStrategy` and add it to
`electra_tf.config.choices.MASKING`. Imports `electra_tf.model` and the layers below.
"""
