"""Rows filled with text: the examples of pre-training, and writing them to TFRecord shards.

Imports no other folder of `pretrain_data`.
"""
