"""Summaries of trials, result files, comparisons and plots.

Imports `finetune.config`.
"""
