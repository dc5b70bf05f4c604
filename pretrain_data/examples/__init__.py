"""Fills rows with text, the examples of pre-training, and writes them to TFRecord shards.

Imports no other folder of `pretrain_data`.
"""
