"""Checkpoints of other programs: one module for each format, in and out.

All formats meet in `model_checkpoint.ModelCheckpoint`: arrays under the authors' names, and
what the model is. `formats.py` finds the format of a path and what it says of its model,
`conversion.py` goes from one to another, `initialization.py` loads any of them into a model.
Models of this project come in families (`native_family.py`), which are given in.

Imports `electra_tf.model_builder` and what is below it. `formats.py` and what it imports load
no TensorFlow.
"""
