"""Raw text to tokens, two-segment examples, TFRecords and a `tf.data` pipeline.

Importing the package imports no TensorFlow; its modules do.
"""
