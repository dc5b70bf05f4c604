"""Pre-training data: raw text to two-segment examples, TFRecords and a `tf.data` pipeline.

Imports `electra_tf.util`, `electra_tf.text` and `electra_tf.training.distribution.shards`.
"""
