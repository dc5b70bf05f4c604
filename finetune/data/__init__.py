"""Raw examples, file readers, features, batches and folds.

Imports `finetune.config`.
"""
