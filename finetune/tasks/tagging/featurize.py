"""Features of sentences: `[CLS] pieces [SEP]`, and the first piece of each word."""

import itertools
from collections.abc import Sequence

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import NUM_SPECIAL, frame
from electra_tf.text.vocabulary import CLS, SEP
from finetune.data.features import INPUT_IDS, SEGMENT_IDS, DataReport, Row
from finetune.tasks.tagging.examples import TaggingExample

CUT_WORDS = "sentence with words beyond max_seq_length"
NO_PIECES = "word without visible characters, read as [UNK]"
HAS_SPACE = "word that contains whitespace, where exported models split it"


def tagging_rows(
    task_name: str,
    examples: Sequence[TaggingExample],
    label_ids: Sequence[Sequence[int]],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    report: DataReport,
    *,
    authors_truncation: bool = False,
) -> list[Row]:
    """Returns one row per sentence.

    A row has as many whole words as fit; the others are reported and have no entry in the
    vectors per word: `<task>_labels`, `<task>_labels_mask` (ones) and
    `<task>_labeled_positions`. Segment ids are 1, as in the authors' code.

    Args:
        label_ids: label ids of the words of each sentence.
        authors_truncation: as in the authors' code, truncate early, turn a word "[CLS]" or
            "[SEP]" into that token, with a label but no position (which shifts the labels of
            later words), and give no token to a word without pieces.
    """
    words = itertools.chain.from_iterable(example.words for example in examples)
    pieces = iter(tokenizer.tokenize(list(words)))
    rows = []
    for example, labels in zip(examples, label_ids, strict=True):
        word_pieces = list(itertools.islice(pieces, len(example.words)))
        if authors_truncation:
            ids, positions = _authors_ids(example.words, word_pieces, tokenizer, max_seq_length)
        else:
            ids, positions = _ids(example, word_pieces, tokenizer, max_seq_length, report)
        if len(positions) < len(example.words):
            missing = len(example.words) - len(positions)
            report.add(CUT_WORDS, eid=example.eid, words=missing)
        count = len(positions)
        rows.append(
            {
                INPUT_IDS: np.array(ids, np.int32),
                SEGMENT_IDS: np.ones(len(ids), np.int32),
                f"{task_name}_eid": example.eid,
                f"{task_name}_labels": np.array(labels[:count], np.int32),
                f"{task_name}_labels_mask": np.ones(count, np.float32),
                f"{task_name}_labeled_positions": np.array(positions, np.int32),
            }
        )
    return rows


def _ids(
    example: TaggingExample,
    pieces: Sequence[np.ndarray],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    report: DataReport,
) -> tuple[list[int], list[int]]:
    """Returns the ids, and the position of each word's first piece."""
    vocabulary = tokenizer.vocabulary
    ids: list[int] = []
    positions: list[int] = []
    for word, word_pieces in zip(example.words, pieces, strict=True):
        word_ids = list(word_pieces) or [vocabulary.unk_id]
        if len(ids) + len(word_ids) + NUM_SPECIAL[1] > max_seq_length:
            break
        if not len(word_pieces):
            report.add(NO_PIECES, eid=example.eid, word=word)
        if len(word.split()) > 1:
            report.add(HAS_SPACE, eid=example.eid, word=word)
        positions.append(1 + len(ids))  # after [CLS]
        ids += word_ids
    return frame(vocabulary, ids).input_ids.tolist(), positions


def _authors_ids(
    words: Sequence[str],
    pieces: Sequence[np.ndarray],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
) -> tuple[list[int], list[int]]:
    vocabulary = tokenizer.vocabulary
    special = {CLS: [vocabulary.cls_id], SEP: [vocabulary.sep_id]}
    inputs = [(CLS, ()), *zip(words, pieces, strict=True), (SEP, ())]
    ids: list[int] = []
    positions: list[int] = []
    for word, word_pieces in inputs:
        if len(inputs) + len(ids) + 1 > max_seq_length:
            ids.append(vocabulary.sep_id)
            break
        if word not in special:
            positions.append(len(ids))
        ids.extend(special.get(word, word_pieces))
    # A long word may still exceed the length; the authors' code fails then.
    return ids[:max_seq_length], [p for p in positions if p < max_seq_length]
