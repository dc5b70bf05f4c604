"""Tasks that users describe in a file or with flags, without code.

`spec.py` is the description and `spec_parser.py` checks it, `readers.py` reads files to
`record.py`, `text_source.py`, `tagging_source.py` and `qa.py` make examples of them, and
`task.py` tasks of both.
"""
