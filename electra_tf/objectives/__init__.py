"""Pre-training objectives other than ELECTRA, one per module, named after `--objective`.

An objective is a subclass of `electra_tf.pretraining_model.PretrainingModel` that defines
additional layers, losses and metrics. To add one, write its module and add it to
`electra_tf.config.choices.OBJECTIVES`. Imports `electra_tf.pretraining_model` and the layers
below.
"""
