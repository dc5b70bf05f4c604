"""Raw examples, file readers, features, batches and folds.

Imports no other folder of `finetune`.
"""
