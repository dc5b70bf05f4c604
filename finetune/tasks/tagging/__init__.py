"""Tagging of words, and of spans of words such as named entities."""
