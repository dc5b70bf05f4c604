"""TFRecords of examples: format, manifest, validation and resumable batches.

Imports no other folder of `pretrain_data`.
"""
