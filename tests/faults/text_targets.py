"""Text that users edit: vocabularies and tasks, for `tests.faults.targets`."""

import json
import pathlib
from typing import Any

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.tokenizer_description import (
    TokenizerDescription,
    load_tokenizer_description,
    write_tokenizer_description,
)
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec_parser import load_specs
from finetune.data.features import DataReport
from finetune.tasks.registry import make_custom_task
from tests.faults.build_writer import demo_vocabulary


def make_vocabulary(folder: pathlib.Path, *, described: bool = True) -> None:
    """Writes a vocabulary, by default with the description of its tokenizer."""
    (folder / "vocab.txt").write_bytes(demo_vocabulary().path.read_bytes())
    if described:
        description = TokenizerDescription(vocab_sha256=demo_vocabulary().sha256)
        write_tokenizer_description(folder / "vocab.txt", description)


def read_vocabulary(folder: pathlib.Path) -> Any:
    """Returns what programs take from a vocabulary and its description."""
    vocabulary = load_vocabulary(folder / "vocab.txt")
    return vocabulary.sha256, load_tokenizer_description(vocabulary.path)


_FILES = {
    "mine.json": json.dumps(
        {
            "name": "mine",
            "kind": "classification",
            "files": {"train": "train.tsv", "dev": "dev.jsonl"},
            "columns": {"text": "text", "label": "label"},
        },
        indent=1,
    ),
    "train.tsv": "text\tlabel\n" + "the king\tgood\na small house\tbad\n" * 12,
    "dev.jsonl": '{"text": "a queen", "label": "good"}\n{"text": "a", "label": "bad"}\n' * 9,
}


def make_task(folder: pathlib.Path) -> None:
    """Writes the description and the files of a task."""
    for name, content in _FILES.items():
        (folder / name).write_text(content)


def read_task(folder: pathlib.Path) -> Any:
    """Returns the features of a task."""
    (spec,) = load_specs(str(folder / "mine.json"))
    config = FinetuningConfig.create(
        data_dir=str(folder), model_name="m", task_names=("mine",), vocab_size=100
    )
    task = make_custom_task(config, spec, CachedTokenizer(demo_vocabulary(), True, True))
    read = []
    for split in ("train", *task.dev_splits):
        report = DataReport(task.name, split)
        examples = task.load(split, report)
        rows = task.featurize(examples, is_training=split == "train", report=report)
        read.append(repr(rows))
    return read
