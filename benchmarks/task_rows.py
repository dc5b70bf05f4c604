"""A task and its features, as fine-tuning has them, for what trains on them otherwise."""

from finetune.config.finetuning import FinetuningConfig
from finetune.task_data import TaskData
from finetune.tasks.base import SplitData, Task


def load_task(config: FinetuningConfig) -> tuple[Task, TaskData, SplitData]:
    """Returns the only task of a configuration, its data, and its only dev set.

    Nothing is written.

    Raises:
        UserError: vocabulary or data cannot be read.
    """
    from electra_tf.text.cached_tokenizer import CachedTokenizer
    from electra_tf.text.vocabulary import load_vocabulary
    from finetune.tasks.registry import build_tasks

    vocabulary = load_vocabulary(config.vocab_file, "--vocab_file")
    tokenizer = CachedTokenizer(vocabulary, config.do_lower_case, config.strip_accents)
    (task,) = build_tasks(config, tokenizer)
    data = TaskData(config, lambda line: None, writes=False)
    (dev_split,) = task.dev_splits
    return task, data, data.get(task, dev_split)
