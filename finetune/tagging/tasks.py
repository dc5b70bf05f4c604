"""The tagging tasks that are built in.

Files are `RAW_DATA_DIR/<task>/{train,dev,test}.txt`, laid out as those of CoNLL.
"""

import os
from typing import NamedTuple

from electra_tf.text.cached_tokenizer import CachedTokenizer
from finetune.config import FinetuningConfig
from finetune.tagging.examples import SPAN, TOKEN, ConllSource, collect_labels
from finetune.tagging.task import TaggingTask


class _Layout(NamedTuple):
    level: str
    tag_column: int


_TASKS = {
    # CoNLL-2000 (Tjong Kim Sang and Buchholz 2000): word, part of speech, chunk.
    "chunk": _Layout(SPAN, -1),
    # CoNLL-2003 (Tjong Kim Sang and De Meulder 2003): word, part of speech, chunk, entity.
    "ner": _Layout(SPAN, -1),
    # The second column of either.
    "pos": _Layout(TOKEN, 1),
}
TAGGING_TASKS = tuple(_TASKS)


def make_tagging_task(
    config: FinetuningConfig, name: str, tokenizer: CachedTokenizer
) -> TaggingTask:
    """Returns a task of `TAGGING_TASKS`; its labels are those of all its files.

    Raises:
        UserError: for files that are missing or broken.
    """
    level, tag_column = _TASKS[name]
    directory = os.path.join(config.raw_data_dir, name)
    files = {s: os.path.join(directory, f"{s}.txt") for s in ("train", "dev", "test")}
    source = ConllSource(files, tag_column)
    labels = collect_labels(source, level)
    return TaggingTask(config, name, tokenizer, source, labels=labels, level=level)
