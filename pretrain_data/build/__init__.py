"""Building records and vocabularies from a corpus.

Imports `pretrain_data.corpus` and `pretrain_data.records`.
"""
