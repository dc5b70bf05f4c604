"""Hyperparameters of fine-tuning, kinds of tasks and users' descriptions of tasks.

Loads no TensorFlow.
"""
