"""Examples as filed, readers of files, features, batches and folds.

Imports `finetune.config`.
"""
