"""What the tests of question answering share: a vocabulary, a tokenizer, a configuration."""

import json
import pathlib
from collections.abc import Callable

import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig
from tests.conftest import SPECIAL_TOKENS

WORDS = (
    "the old bridge over river was built in 1895 - 1943 by anna berg and her two sons who "
    "when what it cafe stands here ( ) . , ? japan ##ese ##s x y z zxyx ##y ##x"
)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> CachedTokenizer:
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *WORDS.split()]) + "\n")
    return CachedTokenizer(load_vocabulary(path))


@pytest.fixture
def make_config(tmp_path) -> Callable[..., FinetuningConfig]:
    def make(**given) -> FinetuningConfig:
        given = {"max_seq_length": 64, "task_names": ("squad",), **given}
        return FinetuningConfig.create(data_dir=str(tmp_path), model_name="m", **given)

    return make


@pytest.fixture
def write_squad(tmp_path) -> Callable[..., str]:
    """Writes paragraphs, (context, [question]) each, as SQuAD's JSON; returns the path."""

    def write(*paragraphs, path: pathlib.Path | None = None) -> str:
        path = path or tmp_path / "squad.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = [{"context": context, "qas": qas} for context, qas in paragraphs]
        path.write_text(json.dumps({"data": [{"paragraphs": content}]}))
        return str(path)

    return write


def ask(name: str, text: str | None = None, start: int = 0, **fields) -> dict:
    """Returns a question of SQuAD with one answer, or with none."""
    answers = [] if text is None else [{"text": text, "answer_start": start}]
    return {"id": name, "question": "who built it ?", "answers": answers, **fields}
