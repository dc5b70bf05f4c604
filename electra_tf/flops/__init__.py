"""FLOPs of models and steps, in the paper's counting and as matrix products.

Imports `electra_tf.config` and the objectives.
"""
