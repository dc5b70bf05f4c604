"""Inference: exports, scoring of texts, the web demo.

Imports `electra_tf.model_builder`, `electra_tf.interop` and the layers below.
"""
