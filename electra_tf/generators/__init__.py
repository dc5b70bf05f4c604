"""Where replacements come from, and what generator and discriminator share.

Imports `electra_tf.model`, `electra_tf.masking` and `electra_tf.pretrain_helpers`.
"""
