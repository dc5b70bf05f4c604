"""Plots as PNG files, one kind per module; `drawing.py` has their fonts and saves them.

Imports `finetune.results.calibration`.
"""
