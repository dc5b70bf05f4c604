"""Tasks that users describe in a file or with flags, without code.

`spec.py` is the description and `spec_parser.py` checks it, `files.py` finds and reads the
files, `text_source.py`, `tagging_source.py` and `qa.py` make examples of their records, and
`task.py` tasks of both.
"""
