"""The project's tokenizer, as tasks use it: batches of texts to lists of ids."""

from collections.abc import Sequence

import numpy as np

from pretrain_data.corpus_tokenizer import CorpusTokenizer
from pretrain_data.tokenizer import Tokenizer
from pretrain_data.vocabulary import Vocabulary


class TextTokenizer:
    """Tokenizes many texts at once, each word only once.

    Attributes:
        vocabulary: of the pre-trained model.
        tokenizer: the in-graph tokenizer that exported models hold too.
    """

    def __init__(
        self, vocabulary: Vocabulary, do_lower_case: bool = True, strip_accents: bool = True
    ) -> None:
        self.vocabulary = vocabulary
        self.tokenizer = Tokenizer(vocabulary, do_lower_case, strip_accents)
        self._cached = CorpusTokenizer(self.tokenizer)

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the int32 ids of each text, without [CLS] and [SEP]."""
        return [
            np.frombuffer(ids, np.int32).copy() if len(ids) else np.zeros(0, np.int32)
            for ids in self._cached.tokenize(list(texts))
        ]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the token strings of ids."""
        return [self.vocabulary.tokens[i] for i in ids]
