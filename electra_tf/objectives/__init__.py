"""The pre-training objectives beside ELECTRA, one module each, named after its objective.

An objective is a subclass of `electra_tf.pretraining_model.PretrainingModel`: it says which
encoders and heads there are, how the losses come about, and what the metrics are. To add one,
write its module and name it in `electra_tf.config.choices.OBJECTIVES`. Imports
`electra_tf.pretraining_model` and what lies below.
"""
