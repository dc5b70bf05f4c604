"""Statistics, verification and reports of built records.

Imports `pretrain_data.records`.
"""
