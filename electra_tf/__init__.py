"""ELECTRA on TensorFlow 2 and Keras 3: models, pre-training, checkpoint formats and inference.

Imports nothing of the other packages, and loads no TensorFlow by itself: the command lines
use `electra_tf.config` and `electra_tf.util` before flags are parsed.
"""

__version__ = "0.1.0"
