"""Questions about contexts, and the location of their answers."""

import dataclasses
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.util.text_checks import valid_text
from finetune.data.features import DataReport

# Words of a context are separated as in the authors' code; other whitespace, such as U+00A0, is
# part of words.
SEPARATORS = " \t\r\n\u202f"
_WORD = re.compile(f"[^{SEPARATORS}]+")
_SEPARATOR = re.compile(f"[{SEPARATORS}]")
NOT_FOUND = "answer not found in the context"
OTHER_FORM = f"{NOT_FOUND}, except in another Unicode form: convert both to NFC"
MISPLACED = "answer_start that does not match the context: another occurrence is learned"
# Encodings in whose units a file may count offsets, and the number of bytes of a unit.
_UNITS = (("utf-16-le", 2), ("utf-8", 1))
NO_ANSWER = "no answer given, in a task where every question has one"
REPEATED_ID = "question id given more than once"


class Context:
    """The context of questions; the questions of a paragraph share one.

    Attributes:
        text: the text, with lone surrogates replaced by U+FFFD.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = valid_text(text)

    @property
    def words(self) -> list[str]:
        """The words; split on every access, because lists of words need much memory."""
        return _WORD.findall(self.text)

    def word_at(self, offset: int) -> int:
        """Returns the index of the last word that starts at or before a character.

        It is -1 for whitespace before the first word.
        """
        return len(_WORD.findall(self.text, 0, offset + 1)) - 1


class GivenAnswer(NamedTuple):
    """Text of an answer, and its first and last character (inclusive), if known."""

    text: str
    start: int | None = None
    end: int | None = None


@dataclasses.dataclass(frozen=True)
class QAExample:
    """A question about a context.

    Attributes:
        eid: index of the example in its split.
        qas_id: id of the question in the data set.
        question_text: the question.
        context: the context.
        answers: texts of all gold answers, for scoring; empty if there is none.
        is_impossible: whether the question is unanswerable.
        orig_answer_text: first gold answer, or None if it was not found.
        start_position, end_position: its first and last word in `context.words`.
        answer_characters: its first character in the context, and the first one after it; None
            to locate its tokens in its words, as the authors' code does.
        group: group of the example in folds and held-out splits: by default its context.
    """

    eid: int
    qas_id: str
    question_text: str
    context: Context
    answers: tuple[str, ...] = ()
    is_impossible: bool = False
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    answer_characters: tuple[int, int] | None = None
    group: str = ""


class QuestionCollector:
    """Collects examples, and reports unusable answers.

    Args:
        report: report of dropped and repaired questions.
        v2: whether questions may be unanswerable, as in SQuAD 2.0.
        is_training: drop questions whose answer is not in the context; otherwise keep them, to
            be scored by the texts of their answers.
        labeled: report questions without an answer, unless `v2`.
        authors_answer_check: also drop answers that differ from the context only in the kind
            of whitespace (U+00A0), as the authors' code does.
        within_words: learn the tokens at the characters of the answer; otherwise, as the
            authors' code does, its first occurrence in its words, or else whole words. These
            are sentences, in languages without spaces.
    """

    def __init__(
        self,
        report: DataReport,
        *,
        v2: bool,
        is_training: bool,
        labeled: bool = True,
        authors_answer_check: bool = False,
        within_words: bool = False,
    ) -> None:
        self.examples: list[QAExample] = []
        self._report = report
        self._v2 = v2
        self._is_training = is_training
        # In SQuAD 2.0, questions without answers are scored as unanswerable ones.
        self._needs_answers = is_training or (labeled and not v2)
        self._authors_answer_check = authors_answer_check
        self._within_words = within_words
        self._ids: set[str] = set()

    def add(
        self,
        context: Context,
        *,
        qas_id: str,
        question: str,
        answers: Sequence[str],
        located: GivenAnswer | None,
        is_impossible: bool = False,
        group: str | None = None,
        others: Sequence[GivenAnswer] = (),
    ) -> None:
        """Adds a question.

        Args:
            context: the context, shared by the questions of a paragraph.
            qas_id: id of the question.
            question: text of the question.
            answers: all gold answers.
            located: the answer to train on; None if unknown.
            is_impossible: whether the question is unanswerable; ignored unless `v2`.
            group: group of the example; None groups by context.
            others: answers to train on if `located` is not in the context.
        """
        if qas_id in self._ids:
            self._report.add(REPEATED_ID, id=qas_id)
        self._ids.add(qas_id)
        is_impossible = is_impossible and self._v2
        span = None
        if not is_impossible and located is not None:
            placed = self._move_to_text(context, located, qas_id)
            span = self._find(context, placed)
            for other in others if span is None else ():
                if (span := self._find(context, other)) is not None:
                    located = other
                    break
            if span is None:
                where = {"id": qas_id, "answer": located.text, "start": located.start}
                reason = OTHER_FORM if _differs_in_unicode_form(context, located) else NOT_FOUND
                self._report.add(reason, **where, dropped=self._is_training)
        elif not is_impossible and self._needs_answers:
            self._report.add(NO_ANSWER, id=qas_id, dropped=self._is_training)
        if self._is_training and not is_impossible and span is None:
            return
        start, end, characters = span or (None, None, None)
        self.examples.append(
            QAExample(
                eid=len(self.examples),
                qas_id=qas_id,
                question_text=valid_text(question),
                context=context,
                answers=tuple(answers),
                is_impossible=is_impossible,
                orig_answer_text=None if span is None else valid_text(located.text),
                start_position=start,
                end_position=end,
                answer_characters=characters if self._within_words else None,
                group=context.text if group is None else group,
            )
        )

    def _move_to_text(self, context: Context, answer: GivenAnswer, qas_id: str) -> GivenAnswer:
        """Returns the answer, moved to where its text is if the context has other text there.

        That is the place of its offset in UTF-16 or UTF-8 units, or else the nearest
        occurrence. Without `within_words`, it stays in place, as in the authors' code.
        """
        text, start = valid_text(answer.text), answer.start
        if not self._within_words or start is None or answer.end is not None:
            return answer
        start += len(text) - len(text.lstrip())
        text = text.strip()
        there = context.text[max(start, 0) : start + len(text)]
        pattern = r"\s+".join(map(re.escape, text.split()))
        if not pattern or there.casefold() == text.casefold():
            return GivenAnswer(text, start) if pattern else answer
        places = [m.start() for m in re.finditer(pattern, context.text, re.IGNORECASE)]
        if not places:
            return answer
        encoded = (
            len(context.text.encode(name)[: size * start].decode(name, "ignore"))
            for name, size in _UNITS
        )
        place = next((each for each in encoded if each in places), None)
        if place is None:
            place = min(places, key=lambda each: abs(each - start))
        if place != start:
            self._report.add(
                MISPLACED, id=qas_id, answer=text, start=answer.start, learned=place
            )
        return GivenAnswer(text, place)

    def _find(
        self, context: Context, answer: GivenAnswer
    ) -> tuple[int, int, tuple[int, int]] | None:
        text = valid_text(answer.text)
        start, end = answer.start, answer.end
        if start is None:
            occurrence = _first_occurrence(context.text, text)
            return occurrence and self._words_of(context, text, *occurrence)
        end_of_text = start + len(text) - 1
        if end is not None and not self._authors_answer_check:
            found = self._words_of(context, text, start, end)
            if found is not None:
                return found
            # Some files have exclusive ends of spans.
        return self._words_of(context, text, start, end_of_text)

    def _words_of(
        self, context: Context, text: str, start: int, end: int
    ) -> tuple[int, int, tuple[int, int]] | None:
        """Returns the first and last word of a span, and the characters of `text` in them.

        None if these words do not contain `text`.
        """
        if not text.strip() or not 0 <= start <= end < len(context.text):
            return None
        words = context.words
        first, last = context.word_at(start), context.word_at(end)
        if first < 0:  # in the whitespace before the first word
            first = len(words) - 1 if self._authors_answer_check else 0
        found = " ".join(words[first : last + 1])
        if not self._authors_answer_check:
            found = " ".join(found.split())
        # The lower case of a final sigma depends on what follows it.
        lower = str.casefold if self._within_words else str.lower
        if lower(" ".join(text.split())) not in lower(found):
            return None
        start_of_word = 1 + max(context.text.rfind(each, 0, start) for each in SEPARATORS)
        behind = _SEPARATOR.search(context.text, end)
        end_of_word = behind.start() if behind else len(context.text)
        pattern = re.compile(_pattern_of(text), re.IGNORECASE)
        places = [
            found.span(1)
            for found in pattern.finditer(context.text, start_of_word, end_of_word)
        ]
        # Other texts with the same casefold, such as "SS" for "ß", are taken as given.
        nearest = min(places, key=lambda place: abs(place[0] - start), default=(start, end + 1))
        return first, last, nearest


def _differs_in_unicode_form(context: Context, answer: GivenAnswer) -> bool:
    """Whether the context contains the answer only if both are normalized (NFC)."""
    texts = (valid_text(answer.text), context.text)
    found, text = (" ".join(unicodedata.normalize("NFC", each).split()) for each in texts)
    return found in text and " ".join(texts[0].split()) not in " ".join(texts[1].split())


def _first_occurrence(context: str, answer: str) -> tuple[int, int] | None:
    """Returns the first and last character of an answer whose place is unknown.

    Occurrences as whole words, and in the same case, are preferred; whitespace may differ.
    """
    if not answer.strip():
        return None
    for needs_whole_words in (True, False):
        for flags in (re.NOFLAG, re.IGNORECASE):
            for found in re.finditer(_pattern_of(answer), context, flags):
                start, end = found.span(1)
                around = context[max(start - 1, 0) : start] + context[end : end + 1]
                if not (needs_whole_words and any(map(_is_in_word, around))):
                    return start, end - 1
    return None


def _pattern_of(text: str) -> str:
    """Returns a pattern whose group 1 is a text with any whitespace between its words.

    Occurrences may overlap.
    """
    words = r"\s+".join(map(re.escape, text.split()))
    return f"(?=({words}))"


def _is_in_word(character: str) -> bool:
    """Whether a character is a letter, digit, "_" or mark, such as the vowel signs of Hindi."""
    return re.match(r"\w", character) is not None or unicodedata.category(character)[0] == "M"
