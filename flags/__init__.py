"""Every absl flag, one module per program or concern.

`command_line` has what all programs do with a command line, and `remote` copies what flags name
on remote file systems.

Nothing outside this package reads `FLAGS`: each module builds frozen
dataclasses from the parsed flags and hands those to the libraries.
"""
