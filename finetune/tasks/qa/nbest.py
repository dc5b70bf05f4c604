"""N-best answers to a question, over all windows of its context."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.special

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.tokenizer import split_words
from electra_tf.text.vocabulary import CONTINUATION
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import INPUT_IDS, Row
from finetune.tasks.qa.context_pieces import PiecePlaces
from finetune.tasks.qa.examples import Context, QAExample
from finetune.tasks.qa.featurize import Window

# Null odds of a context without tokens, as in the authors' code.
CERTAINLY_NULL = 1_000_000.0
# The authors' answer if there is no valid span.
_AUTHORS_NO_SPAN = "empty"
_WORDS_PER_CALL = 100_000


class Answer(NamedTuple):
    """An answer text, its probability among the n-best, and its start and end scores."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


@dataclasses.dataclass(frozen=True)
class DecodedAnswer:
    """Decoded answer to a question.

    Attributes:
        nbest: distinct texts, best first; at least one.
        null_odds: score of having no answer; None in tasks without unanswerable questions.
    """

    nbest: tuple[Answer, ...]
    null_odds: float | None

    @property
    def text(self) -> str:
        """The best non-empty answer, regardless of the null odds; "" if there is none."""
        return next((answer.text for answer in self.nbest if answer.text), "")


class _Spans(NamedTuple):
    """Candidate spans: window, first and last position in it, and their scores."""

    window: np.ndarray
    start: np.ndarray
    end: np.ndarray
    start_logit: np.ndarray
    end_logit: np.ndarray


class NBestDecoder:
    """Decodes answers from the outputs of `finetune.tasks.qa.head.QAHead`.

    Args:
        config: hyperparameters; uses `n_best_size`, `max_answer_length`, `joint_prediction`
            and `answerable_classifier`.
        tokenizer: tokenizer of the model.
        v2: whether questions may be unanswerable.
        authors_text: return the texts of the authors' `FinalText` instead of `PlacedText`, and
            "empty" instead of "" if there is no valid span.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        tokenizer: CachedTokenizer,
        v2: bool,
        *,
        authors_text: bool = False,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._v2 = v2
        self._authors_text = authors_text
        self._final_text = FinalText(tokenizer)
        self._placed_text = PlacedText(tokenizer)

    def prepare(self, examples: Sequence[QAExample]) -> None:
        """Splits all contexts at once, to speed up `decode`."""
        contexts = {id(e.context): e.context for e in examples}.values()
        if self._authors_text:
            self._final_text.prepare(word for context in contexts for word in context.words)
        else:
            self._placed_text.prepare(contexts)

    def decode(
        self,
        example: QAExample,
        windows: Sequence[Window],
        rows: Sequence[Row],
        outputs: Sequence[Mapping[str, np.ndarray]],
    ) -> DecodedAnswer:
        """Returns the best answers to a question.

        Args:
            example: the question.
            windows, rows, outputs: one per window of its context.
        """
        words = example.context.words if self._authors_text else []
        spans = [
            self._spans(number, *pair)
            for number, pair in enumerate(zip(windows, outputs, strict=True))
        ]
        nbest: dict[str, tuple[float, float]] = {}
        if spans:
            merged = _Spans(*map(np.concatenate, zip(*spans, strict=True)))
            order = np.argsort(-(merged.start_logit + merged.end_logit), kind="stable")
            for i in order:
                if len(nbest) >= self._config.n_best_size:
                    break
                window, start, end = (int(column[i]) for column in merged[:3])
                if self._authors_text:
                    text = self._text(words, windows[window], rows[window], start, end)
                else:
                    shift = windows[window].first_piece - windows[window].first_token
                    text = self._placed_text(example.context, start + shift, end + shift)
                nbest.setdefault(text, (merged.start_logit[i], merged.end_logit[i]))
        if not nbest:
            no_span = _AUTHORS_NO_SPAN if self._authors_text else ""
            nbest[no_span] = (np.float32(0), np.float32(0))
        return DecodedAnswer(_with_probabilities(nbest), self._null_odds(nbest, outputs))

    def _spans(self, number: int, window: Window, output: Mapping[str, np.ndarray]) -> _Spans:
        """Returns the spans of a window that are within the context and short enough.

        A span counts only in the window with the maximum context of its start.
        """
        if self._config.joint_prediction:
            starts = output["start_top_index"][:, None]
            ends = output["end_top_index"]
            start_logits = output["start_top_log_probs"][:, None]
            end_logits = output["end_top_log_probs"]
        else:
            starts = _best(output["start_logits"], self._config.n_best_size)[:, None]
            ends = _best(output["end_logits"], self._config.n_best_size)[None]
            start_logits, end_logits = (
                output["start_logits"][starts],
                output["end_logits"][ends],
            )
        starts, ends, start_logits, end_logits = (
            part.ravel() for part in np.broadcast_arrays(starts, ends, start_logits, end_logits)
        )
        count = len(window.words)
        first, last = starts - window.first_token, ends - window.first_token
        valid = (first >= 0) & (first < count) & (first <= last) & (last < count)
        valid &= last - first < self._config.max_answer_length
        valid[valid] = window.is_max_context[first[valid]]
        return _Spans(
            np.full(np.count_nonzero(valid), number),
            starts[valid],
            ends[valid],
            start_logits[valid].astype(np.float32),
            end_logits[valid].astype(np.float32),
        )

    def _text(
        self, words: Sequence[str], window: Window, row: Row, start: int, end: int
    ) -> str:
        """Returns the text of an answer, as spelled in the context.

        Args:
            words: words of the context.
            window: window of the context.
            row: features of the window.
            start, end: first and last token of the answer in the row.
        """
        pieces = self._tokenizer.tokens(row[INPUT_IDS][start : end + 1])
        first = window.words[start - window.first_token]
        last = window.words[end - window.first_token]
        return self._final_text(join_pieces(pieces), words[first : last + 1])

    def _null_odds(
        self,
        nbest: Mapping[str, tuple[float, float]],
        outputs: Sequence[Mapping[str, np.ndarray]],
    ) -> float | None:
        """Returns the minimum null odds over the windows.

        Without a classifier, they are the score of [CLS] minus that of the best answer, as in
        the authors' code; with joint prediction, the score of [CLS] is its start score alone.
        """
        if not self._v2:
            return None
        scores = [CERTAINLY_NULL, *map(self._null_score, outputs)]
        null_odds = np.float32(min(scores))
        if not self._config.answerable_classifier:
            best = next(iter(nbest.values()))
            null_odds = null_odds - np.float32(best[0]) - np.float32(best[1])
        return float(null_odds)

    def _null_score(self, output: Mapping[str, np.ndarray]) -> np.float32:
        if self._config.answerable_classifier:
            return output["answerable_logit"]
        score = output["start_logits"][0]
        return score if self._config.joint_prediction else score + output["end_logits"][0]


def _best(logits: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of the largest logits in descending order; ties stay in order."""
    return np.argsort(-logits, kind="stable")[:count]


def _with_probabilities(nbest: Mapping[str, tuple[float, float]]) -> tuple[Answer, ...]:
    scores = np.array([start + end for start, end in nbest.values()], np.float64)
    shares = scipy.special.softmax(scores)
    return tuple(
        Answer(text, float(share), float(start), float(end))
        for share, (text, (start, end)) in zip(shares, nbest.items(), strict=True)
    )


class PlacedText:
    """Returns predicted answers as exact substrings of their contexts.

    Args:
        tokenizer: tokenizer of the model.
    """

    def __init__(self, tokenizer: CachedTokenizer) -> None:
        self._places = PiecePlaces(tokenizer.tokenizer)

    def prepare(self, contexts: Iterable[Context]) -> None:
        """Tokenizes many contexts at once, much faster than one by one."""
        self._places.prepare(contexts)

    def __call__(self, context: Context, first: int, last: int) -> str:
        """Returns the words of a context from piece `first` to piece `last`."""
        starts, ends = self._places[context]
        return " ".join(Context(context.text[starts[first] : ends[last]]).words)


class FinalText:
    """Aligns predictions with the words of contexts, as the authors' `get_final_text` does.

    Args:
        tokenizer: tokenizer of the model, which splits words.
    """

    def __init__(self, tokenizer: CachedTokenizer) -> None:
        self._tokenizer = tokenizer.tokenizer
        self._tokens_of: dict[str, tuple[str, ...]] = {}

    def prepare(self, words: Iterable[str]) -> None:
        """Splits many words at once, much faster than one by one."""
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
        """Returns the predicted part of the words, in their original spelling.

        `predicted` is searched in the words as split by the tokenizer. If that text and the
        original have the same length without spaces, their characters correspond, which
        locates it in the original. If this fails, all words are returned.

        Args:
            predicted: words of the predicted pieces.
            words: words of the context that contain the predicted pieces.
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
    """Joins tokens to words; "##" continues a word."""
    text = " ".join(tokens).replace(f" {CONTINUATION}", "").replace(CONTINUATION, "")
    return " ".join(text.split())
