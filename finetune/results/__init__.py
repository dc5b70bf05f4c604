"""Summaries of trials, result files, comparisons and figures.

Imports `finetune.config`.
"""
