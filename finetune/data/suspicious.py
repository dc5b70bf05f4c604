"""Warnings of suspicious rows and labels of a task, which make scores misleading."""

import collections
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from electra_tf.text.tokenizer_description import warn_of_unknown_words
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.console import warn_once
from finetune.data.features import Row, is_input_ids, is_segment_ids, row_length

# Share of repeated rows above which there is a warning: a few short texts occur twice in real
# data.
_WARNED_SHARE = 0.05
# Up to this many labels are not suspicious, however few examples there are.
_FEW_LABELS = 20
# With this many examples, it is no accident that the first choice is never right.
_MANY_EXAMPLES = 20
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
# Category of characters without a glyph, such as U+200B.
_FORMAT = "Cf"
# Differences between labels that are probably meant to be the same.
_ALIKE = "case, spacing, invisible characters, Unicode form or how a number is written"
# Values of indicator lists, which have one for every label.
_INDICATORS = ({"0", "1"}, {"false", "true"})
# How programs write a missing value as text, in lower case. "None" and "NA" may be labels.
_MISSING = ("nan", "<na>", "#n/a")
# Separators of lists in a cell that labels themselves seldom contain: ASCII, Chinese, Arabic.
_SEPARATORS = ",;|\uff0c\u3001\uff1b\u060c\u061b"


def join_windows(rows: Sequence[Row], index: str) -> list[Row]:
    """Returns a row for each example, with the tokens of all its rows (--long_text=windows).

    Args:
        rows: rows of a split.
        index: feature of the index of the example.
    """
    joined: dict[int, Row] = {}
    for row in rows:
        first = joined.setdefault(int(row[index]), row)
        if first is not row:
            ids = {x: np.concatenate([first[x], row[x]]) for x in filter(is_input_ids, row)}
            joined[int(row[index])] = {**first, **ids}
    return list(joined.values())


def count_repeated(rows: Sequence[Row], train_rows: Sequence[Row]) -> int:
    """Returns how many rows have the tokens of a training row, whatever their labels."""
    seen = {_digest(row) for row in train_rows}
    return sum(_digest(row) in seen for row in rows)


def describe_repeated(
    name: str,
    rows: Sequence[Row],
    train_rows: Sequence[Row],
    print_fn: Callable[[str], None],
) -> None:
    """Prints, or if they are many warns, that held-out rows are in train, too."""
    count = count_repeated(rows, train_rows)
    if not count:
        return
    line = f"{name}: {count:,} of {len(rows):,} rows repeat a text of the train split"
    if count > _WARNED_SHARE * len(rows):
        warn_once(f"{line}; scores on them say little about new texts")
    else:
        print_fn(line)


def describe_contradictions(
    name: str, rows: Sequence[Row], label: str, print_fn: Callable[[str], None]
) -> None:
    """Prints, or if they are many warns, that the same text has different labels.

    Args:
        name: task and split.
        rows: rows of the split.
        label: feature of the label; rows without it, or with a vector, are not compared.
        print_fn: prints a message.
    """
    labels = collections.defaultdict(collections.Counter)
    for row in rows:
        if np.ndim(row.get(label, ())) == 0:
            labels[_digest(row)][int(row[label])] += 1
    count = sum(each.total() for each in labels.values() if len(each) > 1)
    if not count:
        return
    line = (
        f"{name}: {count:,} of {len(rows):,} rows have the same text as another row, but a "
        "different label"
    )
    if count > _WARNED_SHARE * len(rows):
        warn_once(f"{line}; they are equal up to --max_seq_length, so no model can be right")
    else:
        print_fn(line)


def warn_of_lost_segments(name: str, rows: Sequence[Row], type_vocab_size: int) -> None:
    """Warns if the encoder has no embedding of some segments of a split.

    Args:
        name: task and split.
        rows: rows of the split.
        type_vocab_size: number of segment embeddings of the encoder.
    """
    segments = [row[each] for row in rows for each in filter(is_segment_ids, row)]
    count = sum(np.size(ids) > 0 and np.max(ids) >= type_vocab_size for ids in segments)
    if count:
        warn_once(
            f"{name}: in {count:,} of {len(segments):,} sequences, tokens have segments "
            f"for which the encoder has no embedding (type_vocab_size={type_vocab_size}); "
            "they get no segment embedding"
        )


def warn_of_unknown_rows(name: str, rows: Sequence[Row], vocabulary: Vocabulary) -> None:
    """Warns if the vocabulary does not fit the texts of a split."""
    ids = [row[each] for row in rows for each in filter(is_input_ids, row)]
    ids = np.concatenate([np.zeros(0, np.int32), *ids])
    num_unknown = int(np.count_nonzero(ids == vocabulary.unk_id))
    warn_of_unknown_words(name, num_unknown, vocabulary.count_words(ids), vocabulary.path)


def warn_of_long_rows(name: str, rows: Sequence[Row], pretrained: int, checkpoint: str) -> None:
    """Warns of rows that are longer than the sequences of pre-training.

    Args:
        name: task and split.
        rows: rows of the split.
        pretrained: number of positions that pre-training has used.
        checkpoint: path of the pre-trained model.
    """
    count = sum(row_length(row) > pretrained for row in rows)
    if count:
        warn_once(
            f"{name}: {count:,} of {len(rows):,} rows are longer than the {pretrained} tokens "
            f"that {checkpoint} was pre-trained on: only fine-tuning trains the position "
            f"embeddings after them. Pass --max_seq_length={pretrained}, or pre-train on "
            "longer sequences (--max_seq_length of run_pretraining.py)"
        )


def warn_of_odd_labels(names: Sequence[str], num_occurrences: int, train_path: str) -> None:
    """Warns of labels that look like one label, like texts or ids, or like missing values.

    Args:
        names: the distinct labels of a train file.
        num_occurrences: how often labels occur in it.
        train_path: the file.
    """
    alike = collections.defaultdict(list)
    for name in names:
        alike[_simplified(name)].append(name)
    pairs = [", ".join(map(repr, group)) for group in alike.values() if len(group) > 1]
    if pairs:
        more = f", and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        warn_once(
            f"{train_path}: these labels differ only in {_ALIKE}, but count as different "
            f"labels: {'; '.join(pairs[:3])}{more}"
        )
    if missing := next((name for name in names if name.lower() in _MISSING), None):
        warn_once(
            f"{train_path}: the label {missing!r}, which is learned as any other, looks like a "
            "missing value: if so, remove its examples"
        )
    if len(names) > _FEW_LABELS and len(names) > num_occurrences / 2:
        warn_once(
            f"{train_path} has {len(names)} different labels in {num_occurrences}, such as "
            f'{names[0]!r}; is the right column named in "columns"?'
        )


def alike_label_hint(label: str, names: Iterable[str]) -> str:
    """Returns `. It differs from 'x' only in …`, or an empty string if no label is alike."""
    simplified = _simplified(label)
    alike = next((name for name in names if _simplified(name) == simplified), None)
    return "" if alike is None else f". It differs from {alike!r} only in {_ALIKE}"


def _simplified(name: str) -> str | float:
    """Returns a form in which labels that are probably meant to be the same are equal."""
    seen = "".join(c for c in name if unicodedata.category(c) != _FORMAT)
    plain = " ".join(unicodedata.normalize("NFKC", seen).casefold().split())
    return float(plain) if _NUMBER.fullmatch(plain) else plain


def warn_of_unseparated_labels(
    labels: Sequence[Sequence[str]], separator: str, train_path: str
) -> None:
    """Warns of lists of labels that look like one label because the separator is wrong.

    Args:
        labels: the labels of each example of a train file.
        separator: what separates labels.
        train_path: the file.
    """
    if max(map(len, labels)) > 1:
        return
    for other in _SEPARATORS:
        lists = [name for names in labels for name in names if other in name]
        if other != separator and lists:
            warn_once(
                f"{train_path}: every example has one label at most, such as {lists[0]!r}; if "
                f'that is a list, set "label_separator", which is {separator!r}, to {other!r}'
            )
            return


def warn_of_indicators(names: Iterable[str], train_path: str) -> None:
    """Warns of lists that look like indicators: a 0 or 1 for every label, by position.

    Args:
        names: the labels of the examples of a train file.
        train_path: the file.
    """
    if (distinct := set(names)) in _INDICATORS:
        listed = " and ".join(map(repr, sorted(distinct)))
        warn_once(
            f"{train_path}: the only labels are {listed}; if the lists say by "
            "position which labels an example has, such as [0, 1, 1], write the names of its "
            "labels instead"
        )


def warn_of_written_lists(
    lists: Sequence[Sequence[str]], role: str, separator: str, path: str
) -> None:
    """Warns of cells in which a program wrote a list, such as `['a', 'b']`, as text.

    Args:
        lists: the parts that the cells were divided into.
        role: role of the cells.
        separator: name of the separator that was expected between the parts.
        path: the file.
    """
    given = [parts for parts in lists if parts]
    written = [each for each in given if each[0][0] == "[" and each[-1][-1] == "]"]
    if given and len(written) > len(given) / 2:
        warn_once(
            f"{path}: {role} are lists written as text, whose brackets and quotes become part "
            f"of them, such as {written[0][0]!r}: write them with {separator} between them, or "
            "use jsonl"
        )


def warn_of_counting_from_one(
    labels: Sequence[int], names: Sequence[str], train_path: str, source: str
) -> None:
    """Warns of labels of multiple choice that look as if they count from 1.

    Args:
        labels: the index of the right choice of each example of a train file.
        names: names of the choices, as the file gives them.
        train_path: the file.
        source: the description of the task, as named in messages.
    """
    if names[0] == "0" and len(labels) >= _MANY_EXAMPLES and min(labels) > 0:
        warn_once(
            f"{train_path}: no example has the label 0, its first choice; if labels count "
            f'from 1, list "1", "2", ... as "labels" in {source}'
        )


def warn_of_single_label(name: str, label: str | None, count: int) -> None:
    """Warns if all examples to score have the same label.

    Args:
        name: task and split.
        label: that label; None if there are several.
        count: number of examples.
    """
    if label is not None:
        warn_once(
            f"{name}: all {count:,} examples have the label {label}, so the scores do not "
            "show how well the model distinguishes labels"
        )


def _digest(row: Row) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(filter(is_input_ids, row)):
        ids = np.asarray(row[name], np.int32)
        digest.update(len(ids).to_bytes(4, "little") + ids.tobytes())
    return digest.digest()
