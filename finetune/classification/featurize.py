"""Texts and pairs to `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]`."""

from collections.abc import Sequence

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import truncated_lengths
from finetune.classification.examples import InputExample
from finetune.data_report import DataReport
from finetune.features import INPUT_IDS, SEGMENT_IDS, Row

TRUNCATED = "text truncated"


def text_rows(
    task_name: str,
    examples: Sequence[InputExample],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    report: DataReport,
) -> list[Row]:
    """Returns `input_ids`, `segment_ids` and `<task>_eid` of each example.

    Texts that are too long lose tokens at their ends, the longer of a pair first;
    `report` counts them.
    """
    cls, sep = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    ids_a = tokenizer.tokenize([example.text_a for example in examples])
    ids_b = tokenizer.tokenize([example.text_b or "" for example in examples])
    rows = []
    for example, a, b in zip(examples, ids_a, ids_b, strict=True):
        # As in the authors' code, a text without tokens has no segment of its own.
        room = max_seq_length - (3 if len(b) else 2)
        keep_a, keep_b = truncated_lengths(len(a), len(b), room)
        if (keep_a, keep_b) != (len(a), len(b)):
            report.add(TRUNCATED, eid=example.eid, tokens=len(a) + len(b), kept=room)
        first = [cls, *a[:keep_a], sep]
        second = [*b[:keep_b], sep] if len(b) else []
        rows.append(
            {
                INPUT_IDS: np.array(first + second, np.int32),
                SEGMENT_IDS: np.array([0] * len(first) + [1] * len(second), np.int32),
                f"{task_name}_eid": example.eid,
            }
        )
    return rows
