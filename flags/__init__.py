"""Every absl flag, one module per concern.

Nothing outside this package reads `FLAGS`: each module builds frozen
dataclasses from the parsed flags and hands those to the libraries.
"""
