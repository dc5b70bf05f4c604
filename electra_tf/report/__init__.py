"""HTML reports of runs: what they logged, drawn by Plotly on one self-contained page.

Imports `electra_tf.util`, `electra_tf.config` and the files of `electra_tf.training` that need
no TensorFlow.
"""
