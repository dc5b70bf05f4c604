"""Inference: exports, scoring of texts, the web demo, displays of replaced or masked tokens.

Imports `electra_tf.model_builder` and the layers below.
"""
