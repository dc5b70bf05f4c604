"""Training a WordPiece vocabulary on a corpus, and measuring how well one covers a text.

Imports `pretrain_data.corpus` and `pretrain_data.parallel`.
"""
