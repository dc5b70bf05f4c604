"""Raw text: finding files, reading them, and dividing them among processes.

Imports no other folder of `pretrain_data`.
"""
