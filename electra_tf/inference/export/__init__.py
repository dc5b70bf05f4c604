"""Exports of trained models: SavedModel, LiteRT, ONNX, StableHLO.

They are usable without this repository. `servable.py` is the interface of an exported model;
`pretrained.py` loads one from the folder of a pre-trained model, and `run.py` exports it.
"""
