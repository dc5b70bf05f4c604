"""Trained models as files that answer without this repository: SavedModel, LiteRT, ONNX.

`servable.py` says what an exported model is; `pretrained.py` makes one of the folder
of a pre-trained model, `run.py` exports it.
"""
