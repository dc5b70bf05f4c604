"""Building records from a corpus: selecting documents, and writing their examples to shards.

Imports `pretrain_data.corpus`, `pretrain_data.examples`, `pretrain_data.parallel` and
`pretrain_data.records`.
"""
