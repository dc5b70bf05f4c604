"""How masked positions are chosen, one module each; its name is that of the choice.

To add one, write its module: a subclass of `electra_tf.masking_strategy.MaskingStrategy`.
"""
