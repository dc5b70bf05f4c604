"""Trained models as files that answer without this repository: SavedModel and LiteRT.

`servable.py` says what an exported model is; `models.py` makes one of a model's folder.
"""
