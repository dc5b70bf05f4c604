"""A vocabulary of a few words, for the tests of tasks over texts."""

import pathlib

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig
from tests.conftest import SPECIAL_TOKENS

WORDS = ("a", "b", "c", "d", "e", "f", "##x", "##y", *(f"filler{i}" for i in range(20)))
UNK, CLS, SEP = 1, 2, 3
A, B, C, D, E, F, X, Y = range(5, 13)


def make_tokenizer(folder: pathlib.Path) -> CachedTokenizer:
    """Returns a tokenizer of `WORDS`, whose ids are the constants of this module."""
    path = folder / "tiny_vocab.txt"
    path.write_text("\n".join((*SPECIAL_TOKENS, *WORDS)) + "\n")
    return CachedTokenizer(load_vocabulary(path))


def make_config(folder: pathlib.Path, **given) -> FinetuningConfig:
    """Returns a configuration whose raw data lie in `folder`."""
    given = {"max_seq_length": 8, **given}
    return FinetuningConfig.create(
        data_dir=str(folder), model_name="tiny", raw_data_dir=str(folder), **given
    )


def write(path: pathlib.Path, *lines: str, end: str = "\n") -> None:
    """Writes lines to a file, whose folder is made."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + end, encoding="utf-8")
