"""Training of vocabularies, for `tests.faults.writers`."""

import pathlib

from electra_tf.text.tokenizer_description import load_tokenizer_description
from electra_tf.text.vocabulary import load_vocabulary
from pretrain_data.vocabulary.config import VocabularyBuildConfig
from pretrain_data.vocabulary.vocabulary_builder import build_vocabulary

_SIZES = {1: 40, 2: 50}


def _train(folder: pathlib.Path, version: int) -> None:
    corpus = folder.parent / f"{folder.name}-text"
    corpus.mkdir(exist_ok=True)
    (corpus / "text.txt").write_text("the King was Happy and the Queen was happier\n" * 9)
    config = VocabularyBuildConfig(
        corpus,
        folder / "vocab.txt",
        _SIZES[version],
        do_lower_case=False,
        overwrite=True,
    )
    build_vocabulary(config, print_fn=lambda line: None)


def _read(folder: pathlib.Path) -> str:
    if not (folder / "vocab.txt").exists():
        return "none"
    vocabulary = load_vocabulary(folder / "vocab.txt")
    description = load_tokenizer_description(vocabulary.path)
    assert description is not None, "a vocabulary without the settings it was trained with"
    assert not description.do_lower_case
    (version,) = (each for each, size in _SIZES.items() if size == vocabulary.size)
    return {1: "old", 2: "new"}[version]


FIRST = (lambda folder: None, lambda folder: _train(folder, 2), _read)
AGAIN = (lambda folder: _train(folder, 1), lambda folder: _train(folder, 2), _read)
