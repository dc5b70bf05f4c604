"""Summaries of trials, result files and comparisons; `plots/` has the plots.

Imports `finetune.config`.
"""
