"""Exports of trained models, usable without this repository: SavedModel, LiteRT, ONNX.

`servable.py` is the interface of an exported model; `pretrained.py` loads one from the folder
of a pre-trained model, and `run.py` exports it.
"""
