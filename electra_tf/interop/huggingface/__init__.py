"""Hugging Face checkpoints: tensors, metadata and heads."""
