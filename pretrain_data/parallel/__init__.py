"""Parallel work on a corpus: jobs in processes of this machine, and the progress they report.

Imports no other folder of `pretrain_data`.
"""
