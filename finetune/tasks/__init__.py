"""Tasks: the interface, and one folder per family of kinds.

Imports `finetune.model`, `finetune.data`, `finetune.results` and `finetune.config`.
"""
