"""Tasks: the interface, and one folder per family of kinds.

Imports `finetune.model`, `finetune.data` and `finetune.config`.
"""
