"""Shared utilities: errors, files, console output, TensorFlow import.

Imports none of our packages.
"""
