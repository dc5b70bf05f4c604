"""ELECTRA on TensorFlow 2 and Keras 3: model, objectives, optimizer and training.

Importing the package imports no TensorFlow: `electra_tf.config` and
`electra_tf.errors` are used by the command lines before flags are parsed.
"""
