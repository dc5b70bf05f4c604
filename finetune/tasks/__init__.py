"""The tasks: what one is, and a folder for each family of kinds.

Imports `finetune.model`, `finetune.data` and `finetune.config`.
"""
