"""Drivers of a build: processes of this machine, or the workers of a cluster.

`pretrain_data.build.dataset` gives them a plan. Imports the other files of
`pretrain_data.build` and what they import.
"""
