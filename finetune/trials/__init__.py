"""Trials and folds of a fine-tuning run, and the model folders that they write.

Imports `finetune.trainer`, `finetune.prediction_files` and the layers below.
"""
