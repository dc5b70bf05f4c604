"""Inference: exports, scoring of texts, the web demo.

Imports `electra_tf.model_builder` and the layers below.
"""
