"""Fine-tuning: tasks, their heads and scorers, and the runs that train them.

Start at `task.py` (what a task is) and `training.py` (what a run does). Classification,
regression and multilabel tasks are in `classification/`, tagging in `tagging/`, question
answering in `qa/`, and tasks that users describe in a file in `custom/`.
"""
