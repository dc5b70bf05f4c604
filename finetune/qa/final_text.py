"""Turns predicted pieces back into the characters of the context.

Pieces are lower-cased and stripped of accents; the answer should be what the context says,
without the punctuation that clings to its words.
"""

from collections.abc import Iterable, Sequence

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.tokenizer import split_words

_WORDS_PER_CALL = 100_000


class FinalText:
    """Aligns predictions with the words of contexts.

    Args:
        tokenizer: of the model; its way of splitting words is used.
    """

    def __init__(self, tokenizer: CachedTokenizer) -> None:
        self._tokenizer = tokenizer.tokenizer
        self._tokens_of: dict[str, tuple[str, ...]] = {}

    def prepare(self, words: Iterable[str]) -> None:
        """Splits many words at once, which is much faster than one by one."""
        new = [word for word in dict.fromkeys(words) if word not in self._tokens_of]
        lower, strip = self._tokenizer.do_lower_case, self._tokenizer.strip_accents
        for start in range(0, len(new), _WORDS_PER_CALL):
            part = new[start : start + _WORDS_PER_CALL]
            tokens = split_words([word.encode() for word in part], lower, strip)
            splits = tokens.row_splits.numpy().tolist()
            texts = [token.decode() for token in tokens.values.numpy()]
            self._tokens_of.update(
                (word, tuple(texts[first:last]))
                for word, first, last in zip(part, splits, splits[1:], strict=False)
            )

    def __call__(self, predicted: str, words: Sequence[str]) -> str:
        """Returns the part of the words, joined by blanks, that was predicted.

        The words are split as the tokenizer does it, and `predicted` is looked up in the
        result. Without blanks, both spellings have one character for another if they are
        of the same length, which leads back to the original. Where this fails, all of the
        words are returned.

        Args:
            predicted: words made of the predicted pieces.
            words: words of the context that the predicted pieces belong to.
        """
        self.prepare(words)
        original = " ".join(words)
        split = " ".join([token for word in words for token in self._tokens_of[word]])
        start = split.find(predicted)
        if start < 0 or not predicted:
            return original
        last = start + len(predicted) - 1
        if " " in (split[start], split[last]):
            return original
        places = [i for i, character in enumerate(original) if character != " "]
        if len(places) != len(split) - split.count(" "):
            return original
        first_place = places[start - split.count(" ", 0, start)]
        last_place = places[last - split.count(" ", 0, last)]
        return original[first_place : last_place + 1]


def join_pieces(tokens: Sequence[str]) -> str:
    """Returns the words that tokens make up, "##" continuing a word."""
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())
