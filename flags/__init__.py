"""Every absl flag, one module per program, and the programs themselves.

`programs` has the body and the `--help` of each program, `hyperparameters` turns the fields of
configurations into flags, which `reference` documents, and `records` finds the record files of
a run. `command_line` parses command lines and reports errors for all programs, and `remote`
copies files that flags name on remote file systems.

Nothing outside this package reads `FLAGS`: each module builds frozen dataclasses from the
parsed flags and hands them to the libraries.
"""
