"""FLOPs of models and training steps: the paper's count, and matrix products only.

Imports `electra_tf.config` and `electra_tf.util`.
"""
