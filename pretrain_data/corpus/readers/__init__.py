"""Readers of the corpus formats: text, JSONL, Parquet, Arrow and the archives of OpenWebText.

`pretrain_data.corpus.formats` registers them. Imports the blocks, documents and errors of
`pretrain_data.corpus`.
"""
