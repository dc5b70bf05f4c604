import random

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from finetune.tasks.tagging.spans import Span, bioes_labels, is_tag, span_tags, tag_spans

SPANS = [Span(0, 0, "X"), Span(1, 3, "X"), Span(5, 6, "Y")]
TAGS = {
    "BIOES": ["S-X", "B-X", "I-X", "E-X", "O", "B-Y", "E-Y"],
    "BIO": ["B-X", "B-X", "I-X", "I-X", "O", "B-Y", "I-Y"],
    "IO": ["I-X", "I-X", "I-X", "I-X", "O", "I-Y", "I-Y"],
}


@pytest.mark.parametrize("encoding", TAGS)
def test_encodings(encoding):
    assert span_tags(SPANS, 7, encoding) == TAGS[encoding]
    if encoding != "IO":
        assert tag_spans(TAGS[encoding]) == SPANS


@pytest.mark.parametrize(
    ("tags", "ours", "authors"),
    [
        # IOB1 begins a span with B only next to another one of its type.
        (["I-X", "I-X", "B-X", "O", "I-Y"], [(0, 1, "X"), (2, 2, "X"), (4, 4, "Y")], None),
        (["I-X", "I-Y"], [(0, 0, "X"), (1, 1, "Y")], [(0, 1, "Y")]),
        (["E-X", "E-X"], [(0, 0, "X"), (1, 1, "X")], [(0, 1, "X")]),
        (["S-X", "I-X"], [(0, 0, "X"), (1, 1, "X")], [(0, 1, "X")]),
        (["B-X", "I-Y"], [(0, 0, "X"), (1, 1, "Y")], [(0, 1, "Y")]),
        (["B-A-B", "I-A-B"], [(0, 1, "A-B")], None),
        (["O"], [], None),
        ([], [], None),
    ],
)
def test_ill_formed_and_iob1(tags, ours, authors):
    assert tag_spans(tags) == ours
    assert tag_spans(tags, authors_rule=True) == (ours if authors is None else authors)


def test_same_spans_as_seqeval():
    generator = random.Random(3)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in "XY")]
    for _ in range(2000):
        sequence = generator.choices(tags, k=generator.randrange(1, 9))
        expected = [(start, end, kind) for kind, start, end in get_entities(sequence)]
        assert tag_spans(sequence) == expected


def test_tags_and_labels():
    assert [is_tag(tag) for tag in ("O", "B-X", "S-A-B", "I-")] == [True, True, True, False]
    assert not any(map(is_tag, ("NN", "B", "", "BI-X", "-X", "L-X", "o")))
    assert bioes_labels(["X"]) == ("B-X", "E-X", "I-X", "O", "S-X")
