"""Sliding windows over contexts, and their features."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import NUM_SPECIAL, frame
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import INPUT_IDS, SEGMENT_IDS, DataReport, FeatureSpec, Row
from finetune.tasks.qa.context_pieces import PiecePlaces
from finetune.tasks.qa.examples import Context, QAExample

# The windows of an example have consecutive ids; the ids of two examples are this far apart.
EIDS_PER_EXAMPLE = 1000
PART_OF_WORD = "answer that is part of a word: the whole word is learned"
PART_OF_TOKEN = "answer that begins or ends within a token: the whole token is learned"
# Tie-breaker besides the distance to the nearer edge: prefers windows of full length.
LENGTH_WEIGHT = 0.01


class Pieces(NamedTuple):
    """The pieces of a context.

    `ids` int32 [pieces]; `first_of_word` int [words + 1], index of the first piece of each
    word, followed by the number of pieces.
    """

    ids: np.ndarray
    first_of_word: np.ndarray

    def word_of_piece(self) -> np.ndarray:
        """Returns the index of each piece's word, int [pieces]."""
        return np.repeat(np.arange(len(self.first_of_word) - 1), np.diff(self.first_of_word))


class Window(NamedTuple):
    """Positions of one input, to decode answers.

    Attributes:
        first_token: position of the window's first piece in the input.
        first_piece: index of that piece in the context.
        words: int [pieces of the window], index of each piece's word in the context.
        is_max_context: bool [pieces], whether this window has the maximum context of the
            piece, as defined by BERT's SQuAD code.
    """

    first_token: int
    first_piece: int
    words: np.ndarray
    is_max_context: np.ndarray


class QAFeaturizer:
    """Converts questions and contexts to the rows of a task."""

    def __init__(self, config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> None:
        self._config = config
        self._name = name
        self._tokenizer = tokenizer

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """Features of a row in addition to the shared ones."""
        fields = ("eid", "start_positions", "end_positions", "is_impossible")
        return tuple(FeatureSpec(f"{self._name}_{field}") for field in fields)

    def rows(self, examples: Sequence[QAExample], report: DataReport) -> list[Row]:
        """Returns one row per window of each example, in order.

        Both answer positions are 0 if the window does not contain the whole answer, or if the
        answer is missing or unknown.

        Raises:
            UserError: a question leaves no room for its context.
        """
        rows: list[Row] = []
        answers = self._tokenizer.tokenize([e.orig_answer_text or "" for e in examples])
        places = PiecePlaces(self._tokenizer.tokenizer)
        places.prepare(e.context for e in examples if e.answer_characters is not None)
        parts = self._questions_and_pieces(examples, report)
        for example, answer, (question, pieces) in zip(examples, answers, parts, strict=True):
            starts, room = self._window_starts(question, pieces)
            span = None
            if example.answer_characters is not None:
                span = self._placed_pieces(example, *places[example.context], report)
            elif example.start_position is not None:
                span = self._answer_pieces(example, pieces, answer, report)
            self._report_lengths(example, len(starts), span, report)
            found = False
            for number, start in enumerate(starts):
                window_ids = pieces.ids[start : start + room]
                row = self._input(question, window_ids)
                positions = (0, 0)
                if span and start <= span[0] and span[1] < start + len(window_ids):
                    offset = len(question) + 2 - start
                    positions = (span[0] + offset, span[1] + offset)
                    found = True
                row[f"{self._name}_eid"] = EIDS_PER_EXAMPLE * example.eid + number
                row[f"{self._name}_start_positions"] = int(positions[0])
                row[f"{self._name}_end_positions"] = int(positions[1])
                row[f"{self._name}_is_impossible"] = int(example.is_impossible)
                rows.append(row)
            if span and not found:
                report.add("answer not contained in any window", id=example.qas_id)
        return rows

    def windows(self, examples: Sequence[QAExample]) -> Iterator[list[Window]]:
        """Yields the windows of each example, in the order of its rows."""
        for question, pieces in self._questions_and_pieces(examples):
            starts, room = self._window_starts(question, pieces)
            words = pieces.word_of_piece()
            best = _best_windows(starts, room, len(words))
            yield [
                Window(
                    first_token=len(question) + 2,
                    first_piece=start,
                    words=words[start : start + room],
                    is_max_context=best[start : start + room] == number,
                )
                for number, start in enumerate(starts)
            ]

    def _questions_and_pieces(
        self, examples: Sequence[QAExample], report: DataReport | None = None
    ) -> Iterator[tuple[np.ndarray, Pieces]]:
        questions = self._tokenizer.tokenize([e.question_text for e in examples])
        contexts = {id(e.context): e.context for e in examples}.values()
        ids_of_words = self._tokenize_words(contexts)
        longest = self._config.max_query_length
        last, pieces = None, None
        for example, question in zip(examples, questions, strict=True):
            if report is not None and len(question) > longest:
                report.add(
                    "question truncated to max_query_length",
                    id=example.qas_id,
                    pieces=len(question),
                )
            if example.context is not last:  # questions of a paragraph are adjacent
                last, pieces = example.context, _join(example.context, ids_of_words)
            yield question[:longest], pieces

    def _tokenize_words(self, contexts: Iterable[Context]) -> dict[str, np.ndarray]:
        words = list(dict.fromkeys(word for context in contexts for word in context.words))
        return dict(zip(words, self._tokenizer.tokenize(words), strict=True))

    def _window_starts(self, question: np.ndarray, pieces: Pieces) -> tuple[list[int], int]:
        """Returns the first piece of each window, and the maximum number of pieces."""
        room = self._config.max_seq_length - len(question) - NUM_SPECIAL[2]
        if room < 1:
            raise UserError(
                f"{self._name}: a question of {len(question)} pieces leaves no room for its "
                f"context: increase --max_seq_length={self._config.max_seq_length} or reduce "
                f"--max_query_length={self._config.max_query_length}"
            )
        step = min(room, self._config.doc_stride)
        count = len(pieces.ids)
        # The first window that reaches the end of the context is the last one.
        return list(range(0, max(count - room + step, min(count, 1)), step)), room

    def _placed_pieces(
        self, example: QAExample, starts: np.ndarray, ends: np.ndarray, report: DataReport
    ) -> tuple[int, int] | None:
        """Returns the first and last piece at the characters of an answer; None without any.

        Args:
            example: the question.
            starts, ends: int32 [pieces], the first character of each piece of its context, and
                the first one after it.
            report: report of answers that are not whole pieces.
        """
        start, end = example.answer_characters
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(starts, end)) - 1
        if first > last:
            report.add("answer without tokens", id=example.qas_id)
            return None
        if starts[first] < start or ends[last] > end:
            learned = example.context.text[starts[first] : ends[last]]
            report.add(PART_OF_TOKEN, id=example.qas_id, learned=learned)
        return first, last

    def _answer_pieces(
        self, example: QAExample, pieces: Pieces, answer: np.ndarray, report: DataReport
    ) -> tuple[int, int] | None:
        """Returns the first and last piece of an answer; None if it has no pieces.

        Words may contain more than the answer ("(1895-1943)." for "1895"), so the answer's
        pieces are searched in those of its words, as the authors' code does. If they do not
        occur, all pieces of the words are the answer.
        """
        first = int(pieces.first_of_word[example.start_position])
        last = int(pieces.first_of_word[example.end_position + 1]) - 1
        count = len(answer)
        starts = []
        if count:
            # Part of a word may have more pieces than the whole word.
            end = max(last - count + 2, first)
            starts = first + np.flatnonzero(pieces.ids[first:end] == answer[0])
        for start in starts:
            if np.array_equal(pieces.ids[start : start + count], answer):
                return int(start), int(start) + count - 1
        if first > last:  # words without visible characters have no pieces
            report.add("answer without tokens", id=example.qas_id)
            return None
        words = example.context.words[example.start_position : example.end_position + 1]
        if len("".join(example.orig_answer_text.split())) < len("".join(words)):
            report.add(PART_OF_WORD, id=example.qas_id, pieces=last - first + 1)
        return first, last

    def _input(self, question: np.ndarray, window_ids: np.ndarray) -> Row:
        framed = frame(self._tokenizer.vocabulary, question, window_ids)
        return {
            INPUT_IDS: np.array(framed.input_ids, np.int32),
            SEGMENT_IDS: np.array(framed.segment_ids, np.int32),
        }

    def _report_lengths(
        self,
        example: QAExample,
        num_windows: int,
        span: tuple[int, int] | None,
        report: DataReport,
    ) -> None:
        if num_windows == 0:
            report.add("context without tokens", id=example.qas_id)
        if num_windows > 1:
            report.add("context longer than the window", id=example.qas_id, windows=num_windows)
        if span and span[1] - span[0] >= self._config.max_answer_length:
            pieces = int(span[1] - span[0] + 1)
            report.add("answer longer than max_answer_length", id=example.qas_id, pieces=pieces)


def _join(context: Context, ids_of_words: dict[str, np.ndarray]) -> Pieces:
    parts = [ids_of_words[word] for word in context.words]
    first_of_word = np.cumsum([0, *map(len, parts)])
    return Pieces(np.concatenate([np.zeros(0, np.int32), *parts]), first_of_word)


def _best_windows(starts: Sequence[int], room: int, num_pieces: int) -> np.ndarray:
    """Returns the window with the maximum context for each piece, int [pieces].

    That is the window with the largest minimum of left and right context, the first one in a
    tie.
    """
    best = np.zeros(num_pieces, np.int64)
    best_score = np.full(num_pieces, -np.inf)
    for number, start in enumerate(starts):
        length = min(room, num_pieces - start)
        left = np.arange(length)
        score = np.minimum(left, left[::-1]) + LENGTH_WEIGHT * length
        better = score > best_score[start : start + length]
        best[start : start + length][better] = number
        best_score[start : start + length][better] = score[better]
    return best
