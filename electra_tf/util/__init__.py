"""Utilities of all packages: errors, files and paths, the console, processes.

Files: `files` reads and writes them atomically, `paths` has the remote ones, `file_patterns`
finds them, `output_checks` and `text_checks` refuse them early, `seals` detects damage.
Processes: `signals`, memory (`allocator`), optional packages (`extras`) and
`tensorflow_import`.

Imports none of our packages.
"""
