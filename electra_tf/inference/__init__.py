"""Inference: exports, scoring of texts, the web demo, and replaced or masked tokens shown.

Imports `electra_tf.model_builder` and the layers below.
"""
