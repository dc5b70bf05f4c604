"""Examples of multiple choice, and their features."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from finetune.data.features import (
    INPUT_IDS,
    SEGMENT_IDS,
    DataReport,
    Row,
    sequence_names,
)
from finetune.tasks.text.examples import InputExample, text_rows

_NO_TOKENS = np.zeros(0, np.int32)
SAME_TOKENS = "example whose choices have the same tokens, so no model can distinguish them"


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A text, perhaps a question about it, and the choices.

    Attributes:
        eid: index of its record within its split, from 0.
        text: the context, or the question if there is no other text.
        question: text in front of every choice; None or empty if there is none.
        choices: at least two.
        label: index of the right choice; 0 for unlabeled examples.
        names: names of the choices, if the file has them.
        guid: id of the example in its file, if any.
        group: group of the example in folds and held-out splits, if any.
    """

    eid: int
    text: str
    question: str | None
    choices: tuple[str, ...]
    label: int
    names: tuple[str, ...] | None = None
    guid: str | None = None
    group: str | None = None


def choice_rows(
    task_name: str,
    examples: Sequence[ChoiceExample],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    num_choices: int,
    report: DataReport,
) -> list[Row]:
    """Returns a row for each example, with a sequence per choice and `<task>_eid`.

    Sequences are `[CLS] text [SEP] question choice [SEP]`; those after the last choice are
    empty. Long pairs are truncated at the end, the longer text first; `report` counts the
    truncated examples, and those whose choices have the same tokens.

    Args:
        task_name: name of the task.
        examples: the examples.
        tokenizer: tokenizer of the model.
        max_seq_length: maximum length of a sequence.
        num_choices: number of sequences of a row.
        report: report of the split.
    """
    pairs = [
        InputExample(example.eid, example.text, _with_question(example, choice), "")
        for example in examples
        for choice in example.choices
    ]
    pair_report = DataReport(report.task_name, report.split)
    sequences = iter(text_rows(task_name, pairs, tokenizer, max_seq_length, pair_report))
    for problem, cases in pair_report.problems.items():
        for case in {case["eid"]: case for case in cases}.values():
            report.add(problem, **case)
    rows = []
    for example in examples:
        row: Row = {f"{task_name}_eid": example.eid}
        for index in range(num_choices):
            sequence = next(sequences) if index < len(example.choices) else {}
            names = sequence_names(index)
            row[names.input_ids] = sequence.get(INPUT_IDS, _NO_TOKENS)
            row[names.segment_ids] = sequence.get(SEGMENT_IDS, _NO_TOKENS)
        indices = range(len(example.choices))
        tokens = [row[sequence_names(index).input_ids].tobytes() for index in indices]
        if repeated := [index for index in indices if tokens[index] in tokens[:index]]:
            report.add(SAME_TOKENS, eid=example.eid, choices=repeated)
        rows.append(row)
    return rows


def _with_question(example: ChoiceExample, choice: str) -> str:
    return f"{example.question} {choice}" if example.question else choice
