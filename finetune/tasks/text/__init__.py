"""Classification, multilabel classification and regression of texts and pairs of texts.

Each kind has its module; `glue.py` has the tasks of GLUE, `custom.py` those of users.
"""
