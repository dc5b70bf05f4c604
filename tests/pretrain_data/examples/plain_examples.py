"""Two-segment examples in plain Python, to test the builder against: one long function."""

import random
from collections.abc import Callable, Iterable


def plain_examples(
    files: Iterable[str],
    tokenize: Callable[[str], list[int]],
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
    seed: int,
    blanks_separate_docs: bool,
) -> tuple[list[dict[str, list[int]]], float]:
    """Builds examples by the description in the reference data's README.

    Args:
        files: contents of the corpus files, in order.
        tokenize: text to ids.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: tokens per example.
        seed: given to `random.seed` before the first line.
        blanks_separate_docs: whether blank lines are handed to the builder.

    Returns:
        `input_ids` and `segment_ids` of each example, and the next random number.
    """
    random.seed(seed)
    examples, pending, target = [], [], max_seq_length
    for content in files:
        lines = content.split("\n")
        lines = [line.strip() for line in (lines if lines[-1] else lines[:-1])]
        for line in [line for line in lines if line or blanks_separate_docs] + [""]:
            num_pending = sum(map(len, pending))
            if line or not num_pending:
                pending.append(tokenize(line))
                if sum(map(len, pending)) < target:
                    continue
            first_target = 100000 if random.random() < 0.1 else (target - 3) // 2
            first, second = [], []
            for sentence in pending:
                joins_first = not first or len(first) + len(sentence) < first_target
                if not joins_first and not second and len(first) < first_target:
                    joins_first = random.random() < 0.5
                if joins_first:
                    first = first + sentence
                else:
                    second = second + sentence
            first = first[: max_seq_length - 2]
            second = second[: max(0, max_seq_length - len(first) - 3)]
            target, pending = max_seq_length, []
            if random.random() < 0.05:
                target = random.randint(5, max_seq_length)
            ids = [cls_id, *first, sep_id]
            segments = [0] * len(ids)
            if second:
                ids = [*ids, *second, sep_id]
                segments = segments + [1] * (len(second) + 1)
            examples.append({"input_ids": ids, "segment_ids": segments})
    return examples, random.random()
