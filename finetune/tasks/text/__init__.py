"""Tasks that give a text, or a pair, one label, several labels or a number.

`task.py` holds the three kinds, whatever their files; `glue.py` the tasks of GLUE.
"""
