"""What the checks of question answering share: configurations, tokenizer, SQuAD 1.1 data."""

import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig


def make_config(recorded: Mapping[str, Any]) -> FinetuningConfig:
    """Returns our configuration for what differs from the defaults of the authors'."""
    return FinetuningConfig.create(**{"data_dir": "-", "model_name": "reference", **recorded})


def make_tokenizer(vocab_file: pathlib.Path, config: FinetuningConfig) -> CachedTokenizer:
    """Returns the tokenizer of a configuration."""
    lower = True if config.do_lower_case is None else config.do_lower_case
    return CachedTokenizer(load_vocabulary(vocab_file), lower)


def answerable(squad: dict) -> dict:
    """Returns SQuAD 2.0 data as 1.1: the questions that have answers."""
    articles = [
        {
            "paragraphs": [
                {
                    "context": paragraph["context"],
                    "qas": [
                        {key: value for key, value in qa.items() if key != "is_impossible"}
                        for qa in paragraph["qas"]
                        if not qa.get("is_impossible")
                    ],
                }
                for paragraph in article["paragraphs"]
            ]
        }
        for article in squad["data"]
    ]
    return {"version": "1.1", "data": articles}
