"""Makes users' own tasks of files in a temporary folder."""

import json
from collections.abc import Callable

import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec_parser import load_specs
from finetune.tasks.registry import make_custom_task

WORDS = ("a", "b", "c", "d", "good", "bad", "who", "was", "here", "?", "me", "##s")


@pytest.fixture
def tokenizer(tmp_path) -> CachedTokenizer:
    """A tokenizer of a dozen words."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    return CachedTokenizer(load_vocabulary(path))


@pytest.fixture
def make_task(tmp_path, tokenizer) -> Callable:
    """Returns a function that writes files and makes a task called mine of them.

    Each file is the split of its name, but for those called new.
    """

    def make(files, kind, config=None, **changes):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        splits = {name.split(".")[0]: name for name in files}
        splits.pop("new", None)
        spec = {"name": "mine", "kind": kind, "files": splits, **changes}
        (tmp_path / "mine.json").write_text(json.dumps(spec))
        (spec,) = load_specs(str(tmp_path / "mine.json"))
        settings = {
            "data_dir": str(tmp_path),
            "model_name": "tiny",
            "task_names": ("mine",),
            "max_seq_length": 16,
        }
        return make_custom_task(
            FinetuningConfig.create(**{**settings, **(config or {})}), spec, tokenizer
        )

    return make
