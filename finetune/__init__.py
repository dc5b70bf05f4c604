"""Fine-tuning: tasks, their heads and metrics, and the runs that train them.

Start with `finetune.tasks.base` (the interface of a task), `finetune.tasks.registry` (the tasks
of a run, by name) and `finetune.run` (a run). Tasks are in `finetune/tasks/text`,
`finetune/tasks/tagging`, `finetune/tasks/qa` and `finetune/tasks/choice`; each has a
`custom.py` for tasks that users describe in a file.
"""
