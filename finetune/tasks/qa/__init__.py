"""Extractive question answering: an answer is a span of the context, or missing."""
