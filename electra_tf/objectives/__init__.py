"""The pre-training objectives, one module each; its name is that of the objective.

An objective says which parts the model needs, composes the model's steps into losses, and
names its metrics. To add one, write its module: a subclass of `electra_tf.objective.Objective`.
"""
