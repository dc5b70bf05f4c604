"""Checkpoint formats: one module or folder per format, for reading and writing.

The common representation is `model_checkpoint.ModelCheckpoint`: arrays under the authors'
names, and a description of the model. `formats.py` detects the format of a path and reads its
settings, which `initial_settings.py` applies to a run that starts from it; `conversion.py`
converts between formats, and `initialization.py` loads any of them into a model. This project's
models belong to families (`native_family.py`), passed in by the caller.

Imports `electra_tf.model_builder` and the layers below. `formats.py`, `initial_settings.py` and
their imports do not load TensorFlow.
"""
