"""Hugging Face's checkpoints: tensors, metadata and heads."""
