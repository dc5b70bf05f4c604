"""Checkpoints of other programs: one module for each format, in and out.

All formats meet in `checkpoint.ModelCheckpoint`: arrays under the authors' names, and what
the model is. `formats.py` finds the format of a path, `conversion.py` goes from one to
another, `initialization.py` loads any of them into a model.
"""
