"""The question answering tasks of the authors: SQuAD 1.1 and 2.0, and five of MRQA 2019."""

import os
from collections.abc import Sequence

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError, nearest_name_hint
from finetune.config import FinetuningConfig
from finetune.config_defaults import QA_TASKS
from finetune.qa.readers import MRQA_SUFFIXES
from finetune.qa.task import QATask
from finetune.task import PREDICT

SPLITS = ("train", "dev", "test")
# The other tasks have files in the layout of MRQA.
SQUAD_TASKS = ("squad", "squadv1")
# Its questions may have no answer.
SQUAD_V2 = "squad"


def make_qa_task(config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> QATask:
    """Returns one of `finetune.config_defaults.QA_TASKS`.

    The files of squad and squadv1 are RAW/<task>/<split>.json, those of the other tasks
    RAW/<task>/<split>.jsonl or .jsonl.gz, where RAW is `config.raw_data_dir`.

    Raises:
        UserError: if there is no such task.
    """
    if name not in QA_TASKS:
        raise UserError(
            f"There is no question answering task {name!r}, only {', '.join(QA_TASKS)}."
            + nearest_name_hint(name, QA_TASKS)
        )
    suffixes = (".json",) if name in SQUAD_TASKS else MRQA_SUFFIXES
    folder = os.path.join(config.raw_data_dir, name)
    files = {split: _existing(os.path.join(folder, split), suffixes) for split in SPLITS}
    if config.predict_file:
        files[PREDICT] = config.predict_file
    return QATask(config, name, tokenizer, v2=name == SQUAD_V2, files=files)


def _existing(stem: str, suffixes: Sequence[str]) -> str:
    paths = [stem + suffix for suffix in suffixes]
    return next((path for path in paths if os.path.exists(path)), paths[0])
