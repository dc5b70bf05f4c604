"""Trained models at work: exports, scores of texts, the web page.

Imports `electra_tf.model_builder`, `electra_tf.interop` and what is below them.
"""
