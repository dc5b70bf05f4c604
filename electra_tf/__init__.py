"""ELECTRA on TensorFlow 2 and Keras 3: model, objectives, optimizer and training.

Importing the package does not import TensorFlow: the command lines use `electra_tf.config`
and `electra_tf.util` before flags are parsed.
"""
