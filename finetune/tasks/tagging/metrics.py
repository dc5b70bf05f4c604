"""Metrics of tagging: precision, recall and F1 of spans, and the accuracy of tags."""

from collections.abc import Sequence

from finetune.tasks.tagging.spans import tag_spans

Tags = Sequence[Sequence[str]]


def span_metrics(
    gold: Tags, predicted: Tags, *, authors_rule: bool = False
) -> dict[str, float]:
    """Returns "precision", "recall" and "f1" over the spans of all sentences.

    A span is correct if both ends and its type are correct. Recall counts all spans of `gold`.
    As in conlleval, values with denominator 0 are 0.

    Args:
        gold, predicted: tags of each word of each sentence, of the same lengths.
        authors_rule: see `tag_spans`.

    Raises:
        ValueError: the number of predicted tags of a sentence is not its number of words.
    """
    # seqeval agrees with this, but lacks the authors' rule.
    right = num_gold = num_predicted = 0
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"{len(predicted_tags)} tags for {len(gold_tags)} words")
        gold_spans = set(tag_spans(gold_tags, authors_rule=authors_rule))
        predicted_spans = set(tag_spans(predicted_tags, authors_rule=authors_rule))
        right += len(gold_spans & predicted_spans)
        num_gold += len(gold_spans)
        num_predicted += len(predicted_spans)
    return {
        "precision": _percent(right, num_predicted),
        "recall": _percent(right, num_gold),
        "f1": _percent(2 * right, num_gold + num_predicted),
    }


def token_accuracy(gold: Tags, predicted: Sequence[Sequence[str | None]]) -> float:
    """Returns the fraction of words with the correct tag; a tag of None is wrong."""
    pairs = [
        (gold_tag, predicted_tag)
        for gold_tags, predicted_tags in zip(gold, predicted, strict=True)
        for gold_tag, predicted_tag in zip(gold_tags, predicted_tags, strict=True)
    ]
    return _percent(sum(g == p for g, p in pairs), len(pairs))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
