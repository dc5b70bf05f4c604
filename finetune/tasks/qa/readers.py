"""Readers of SQuAD JSON files, and of JSON-lines files of the MRQA 2019 shared task."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError
from finetune.data.file_readers import parse_task_json, read_text
from finetune.tasks.qa.examples import Context, GivenAnswer, QuestionCollector

MRQA_SUFFIXES = (".jsonl", ".jsonl.gz")
# Fields of a question's id. MRQA files may have both; its evaluation uses "qid".
_SQUAD_IDS, _MRQA_IDS = ("id", "qid"), ("qid", "id")
_KINDS = {str: "a string", list: "a list", dict: "an object", int: "an integer"}


def read_questions(path: str, collector: QuestionCollector) -> None:
    """Adds the questions of a file to `collector`.

    Files that end in .jsonl or .jsonl.gz have MRQA's format; others (.json or .json.gz) have
    that of SQuAD 1.1 or 2.0.

    Raises:
        UserError: the file is missing or malformed; the message names the line or record.
    """
    if path.endswith(MRQA_SUFFIXES):
        _read_mrqa(path, collector)
    else:
        _read_squad(path, collector)


def _read_squad(path: str, collector: QuestionCollector) -> None:
    content = parse_task_json(read_text(path), path)
    for i, article in enumerate(_field(content, "data", list, path)):
        where = f"{path}: data[{i}]"
        for j, paragraph in enumerate(_field(article, "paragraphs", list, where)):
            _add_paragraph(paragraph, f"{where}.paragraphs[{j}]", collector, _SQUAD_IDS)


def _read_mrqa(path: str, collector: QuestionCollector) -> None:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        where = f"{path}: line {number}"
        if not line.strip():
            continue
        paragraph = parse_task_json(line, where)
        if isinstance(paragraph, dict) and "question" in paragraph and "qas" not in paragraph:
            raise UserError(
                f'{where} lacks "qas", the questions of a context in the format of MRQA. If '
                'each line is one question, name the "columns" of the task, such as '
                "--own_task_columns=question=question,context=context,answers=answers"
            )
        if not (isinstance(paragraph, dict) and "header" in paragraph):
            _add_paragraph(paragraph, where, collector, _MRQA_IDS)


def _add_paragraph(
    paragraph: Any, where: str, collector: QuestionCollector, id_fields: tuple[str, str]
) -> None:
    context = Context(_field(paragraph, "context", str, where))
    for k, qa in enumerate(_field(paragraph, "qas", list, where)):
        question_at = f"{where}.qas[{k}]"
        question = _field(qa, "question", str, question_at)
        first, second = id_fields
        name = qa.get(first, qa.get(second))
        if not isinstance(name, str | int):
            raise UserError(f'{question_at} needs an "{first}" (or "{second}"), a string')
        answers, located = _answers(qa, question_at)
        collector.add(
            context,
            qas_id=str(name),
            question=question,
            answers=answers,
            located=located,
            is_impossible=_is_impossible(qa, answers, question_at),
        )


def _is_impossible(qa: Mapping[str, Any], answers: list[str], where: str) -> bool:
    value = qa.get("is_impossible", not answers)
    if not isinstance(value, bool):
        raise UserError(f'{where}: "is_impossible" must be true or false, not {value!r:.80}')
    return value


def _answers(qa: Mapping[str, Any], where: str) -> tuple[list[str], GivenAnswer | None]:
    """Returns the texts of all gold answers, and the first one with its location, if given."""
    if "detected_answers" in qa:
        return _mrqa_answers(qa, where)
    texts, located = [], None
    given = _field(qa, "answers", list, where) if "answers" in qa else []
    for i, answer in enumerate(given):
        start = None
        if isinstance(answer, str):  # as in MRQA, without its location
            texts.append(answer)
        else:
            answer_at = f"{where}.answers[{i}]"
            texts.append(_field(answer, "text", str, answer_at))
            if "answer_start" in answer:  # scores need no location
                start = _field(answer, "answer_start", int, answer_at)
        located = located or GivenAnswer(texts[0], start)
    return texts, located


def _mrqa_answers(qa: Mapping[str, Any], where: str) -> tuple[list[str], GivenAnswer | None]:
    detected = _field(qa, "detected_answers", list, where)
    located, detected_texts = None, []
    for i, answer in enumerate(detected):
        answer_at = f"{where}.detected_answers[{i}]"
        detected_texts.append(_field(answer, "text", str, answer_at))
        if i == 0:
            spans = _field(answer, "char_spans", list, answer_at)
            if not (spans and _is_span(spans[0])):
                raise UserError(
                    f'{answer_at}: "char_spans" must be a list of pairs [first, last '
                    f"character], not {spans!r:.80}"
                )
            located = GivenAnswer(detected_texts[0], *spans[0])
    # An empty list does not make a question with an answer unanswerable.
    texts = (_field(qa, "answers", list, where) if "answers" in qa else []) or detected_texts
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f'{where}: "answers" must be a list of strings, not {texts!r:.80}')
    return texts, located


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value)


def _field(record: Any, name: str, kind: type, where: str) -> Any:
    """Returns a field of a JSON object; raises UserError if it is missing or invalid."""
    if not isinstance(record, dict):
        raise UserError(f"{where} must be an object, not {type(record).__name__}")
    if name not in record:
        raise UserError(f'{where} lacks "{name}"')
    value = record[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UserError(f'{where}: "{name}" must be {_KINDS[kind]}, not {value!r:.80}')
    return value
