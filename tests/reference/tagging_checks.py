"""Compares tagging with what the authors' code produced."""

import json
import pathlib
import unicodedata
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.tokenizer import MAX_CODE_POINTS_PER_WORD
from finetune.data.features import DataReport
from finetune.tasks.base import SplitData
from finetune.tasks.tagging.examples import ConllSource, TaggingExample
from finetune.tasks.tagging.metrics import span_metrics, token_accuracy
from finetune.tasks.tagging.spans import span_tags, tag_spans
from finetune.tasks.tagging.task import TaggingTask
from tests.reference.classification_checks import (
    MAX_SEQ_LENGTH,
    TOLERANCE,
    RecordedHeads,
    make_config,
    padded,
    read_features,
    recorded_heads,
    text_tokenizer,
)
from tests.reference.result import CheckResult, Comparison, guarded

TASK = "chunk"
# Encodings of `span_tags` by the key of the recorded tags.
ENCODINGS = {"bioes": "BIOES", "bio": "BIO", "io": "IO"}
# Kinds of recorded tags that hold well-formed ones alone.
WELL_FORMED = ("bioes", "iob2")


def check_tagging(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields the results of features, spans, scorers and the head.

    Args:
        reference_dir: a set of fine-tuning numbers; its README defines the files.
        vocab_file: the vocabulary that the features were made with.
    """
    yield from guarded("tagging features", lambda: check_features(reference_dir, vocab_file))
    yield from guarded("tagging spans", lambda: check_spans(reference_dir))
    yield from guarded("tagging scorers", lambda: check_scorers(reference_dir))
    yield from guarded("tagging heads", lambda: check_heads(reference_dir))


class WordsAsTheyStand(CachedTokenizer):
    """Leaves CJK ideographs together, as the authors' code does in tagging alone."""

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of words."""
        found = super().tokenize(texts)
        return [
            self._longest_pieces(text) if "CJK" in _scripts(text) else ids
            for text, ids in zip(texts, found, strict=True)
        ]

    def _longest_pieces(self, word: str) -> np.ndarray:
        """Cuts the parts of a word into pieces, the longest first."""
        ids: list[int] = []
        for part in _split_at_punctuation(word):
            of_part, start = [], 0
            if len(part) > MAX_CODE_POINTS_PER_WORD:
                ids.append(self.vocabulary.unk_id)
                continue
            while start < len(part):
                prefix = "##" if start else ""
                ends = range(len(part), start, -1)
                known = (end for end in ends if prefix + part[start:end] in self.vocabulary.ids)
                end = next(known, None)
                if end is None:
                    of_part = [self.vocabulary.unk_id]
                    break
                of_part.append(self.vocabulary.ids[prefix + part[start:end]])
                start = end
            ids += of_part
        return np.array(ids, np.int32)


def _scripts(word: str) -> set[str]:
    """Returns the first words of the names of a word's characters."""
    return {unicodedata.name(c, "none").split()[0] for c in word}


def _split_at_punctuation(word: str) -> list[str]:
    """Returns the parts of a word, in small letters without accents."""
    parts, joins = [], False
    for c in unicodedata.normalize("NFD", word.lower()):
        category = unicodedata.category(c)
        if category == "Mn" or category[0] == "C" or c == "\ufffd":
            continue
        is_punctuation = category[0] == "P" or (c.isascii() and not c.isalnum())
        if joins and not is_punctuation:
            parts[-1] += c
        else:
            parts.append(c)
        joins = not is_punctuation
    return parts


def check_features(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Compares the features of each sentence, cut where the authors' code cuts.

    Their labels of cut words, which nothing reads, are compared with our label ids.
    """
    path = reference_dir / "features_chunk_label_mapping.json"
    mapping = json.loads(path.read_text())
    lines = [line for line in read_features(reference_dir) if line["task"] == TASK]
    vocabulary = text_tokenizer(vocab_file).vocabulary
    groups: dict[tuple[str, str], list[dict]] = {}
    for line in lines:
        groups.setdefault((line["split"], json.dumps(line["config"])), []).append(line)
    for (split, given), group in groups.items():
        config = make_config("unused", authors_tagging_truncation=True, **json.loads(given))
        # Their tagging lowercases and strips accents whatever the settings are.
        tokenizer = WordsAsTheyStand(vocabulary)
        labels = sorted(mapping, key=mapping.get)
        task = TaggingTask(config, TASK, tokenizer, ConllSource({}), labels=labels)
        yield _compare_features(f"features {TASK} {split}", task, group)
    comparison = Comparison(f"label mapping {TASK}")
    in_use = {
        label for line in lines for label in span_tags(tag_spans(_tags(line)), len(_tags(line)))
    }
    comparison.true("labels", in_use <= set(mapping), f"unknown: {in_use - set(mapping)}")
    ids = [mapping[label] for label in sorted(mapping)]
    comparison.equal("ids are those of the sorted labels", ids, np.arange(len(ids)))
    yield comparison.result()


def _compare_features(label: str, task: TaggingTask, lines: Sequence[dict]) -> CheckResult:
    comparison = Comparison(label)
    examples = [
        TaggingExample(line["raw"]["eid"], tuple(line["raw"]["words"]), _tags(line))
        for line in lines
    ]
    rows = task.featurize(examples, is_training=True, report=DataReport(task.name, "train"))
    for example, row, line in zip(examples, rows, lines, strict=True):
        where = f"eid {example.eid}"
        length = line["config"][MAX_SEQ_LENGTH]
        features = padded(row, length)
        expected = {name: v for name, v in line["features"].items() if name != "task_id"}
        all_labels = np.array(expected.pop(f"{task.name}_labels"))
        labels = np.array(task.label_ids(example)[:length])
        comparison.equal(f"{where} labels", padded_to(labels, length), all_labels)
        mask = np.array(expected[f"{task.name}_labels_mask"])
        seen = features.pop(f"{task.name}_labels")
        comparison.equal(f"{where} labels of kept words", seen, all_labels * (mask > 0))
        same_names = features.keys() == expected.keys()
        comparison.true(f"{where} names", same_names, f"{sorted(features)}")
        for name in features.keys() & expected.keys():
            comparison.equal(f"{where} {name}", features[name], expected[name])
    return comparison.result()


def _tags(line: dict) -> tuple[str, ...]:
    """Returns the tags of a sentence; ill-formed ones encode the spans of the authors' rule."""
    tags = line["raw"]["tags"]
    spans = tag_spans(tags, authors_rule=True)
    return tuple(tags if tag_spans(tags) == spans else span_tags(spans, len(tags)))


def padded_to(vector: np.ndarray, length: int) -> np.ndarray:
    """Returns a vector with zeros behind it, of `length` in all."""
    return np.pad(vector, (0, length - len(vector)))


def check_spans(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Compares spans and tags: the authors' rule on all tags, ours on well-formed ones."""
    pairs = json.loads((reference_dir / "scorers_basic.json").read_text())["span_pairs"]
    authors, ours = Comparison("spans, authors' rule"), Comparison("spans, our rule")
    for i, pair in enumerate(pairs):
        label = f"{pair['kind']} {i}"
        expected = [tuple(span) for span in pair["spans"]]
        found = tag_spans(pair["tags"], authors_rule=True)
        authors.true(label, found == expected, f"{found}, expected {expected}")
        for key, encoding in ENCODINGS.items():
            tags = span_tags(found, len(pair["tags"]), encoding)
            authors.true(f"{label} {key}", tags == pair[key], f"{tags}")
        if pair["kind"] in WELL_FORMED:
            found = tag_spans(pair["tags"])
            ours.true(label, found == expected, f"{found}, expected {expected}")
            ours.true(f"{label} of BIO", tag_spans(pair["bio"]) == found, f"{pair['bio']}")
    yield authors.result()
    yield ours.result()


def check_scorers(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Compares metrics of recorded predictions; the authors' loss counts each one twice."""
    cases = json.loads((reference_dir / "scorers_basic.json").read_text())["tagging"]
    comparison = Comparison("scorer tagging")
    for i, case in enumerate(cases):
        names = sorted(case["label_mapping"], key=case["label_mapping"].get)
        gold, predicted = [], []
        for update in case["updates"]:
            count = round(sum(update["labels_mask"]))
            gold.append([names[j] for j in update["labels"][:count]])
            predicted.append([names[j] for j in update["predictions"][:count]])
        total = sum(update["loss"] for update in case["updates"])
        loss = 2 * total / sum(map(len, gold))
        metrics = {**span_metrics(gold, predicted, authors_rule=True), "loss": loss}
        for name, value in case["entity_f1"].items():
            comparison.close(f"case {i} entity {name}", metrics[name], value, TOLERANCE)
        metrics = {"accuracy": token_accuracy(gold, predicted), "loss": loss}
        for name, value in case["accuracy"].items():
            comparison.close(f"case {i} word {name}", metrics[name], value, TOLERANCE)
    yield comparison.result()


def check_heads(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the result of every recorded model that tags."""
    for recorded in recorded_heads(reference_dir):
        if TASK in recorded.task_names:
            yield _check_head(recorded)


def _check_head(recorded: RecordedHeads) -> CheckResult:
    """Compares losses, logits and predictions, and the loss of a word."""
    labels = [f"label{i}" for i in range(recorded.given["n_chunk_classes"])]
    config = make_config("unused", authors_tagging_truncation=True)
    task = TaggingTask(config, TASK, None, ConllSource({}), labels=labels, level="token")
    with keras.name_scope("task_specific"):
        head = task.build_head(recorded.encoder_config, keras.DTypePolicy("float32"))
    variables = head.named_variables()
    recorded.load(variables)
    comparison = Comparison(f"head {recorded.folder.name} {TASK}")
    paths = [entry.variable.path for entry in variables]
    expected = [f"task_specific/{TASK}/dense/{name}" for name in ("kernel", "bias")]
    comparison.true("paths", paths == expected, f"{paths}, expected {expected}")
    losses, outputs = head(recorded.encoded.sequence_output, recorded.features)
    comparison.close("loss", losses, recorded.output(TASK, "loss"), TOLERANCE)
    comparison.close("logits", outputs["logits"], recorded.output(TASK, "logits"), TOLERANCE)
    predictions = recorded.output(TASK, "predictions")
    comparison.equal("predictions", outputs["predictions"], predictions)

    masks = recorded.arrays[f"in/{TASK}_labels_mask"]
    rows = []
    for i, mask in enumerate(masks):
        count = round(float(mask.sum()))
        names = (f"{TASK}_labels", f"{TASK}_labeled_positions")
        rows.append({name: recorded.arrays[f"in/{name}"][i, :count] for name in names})
    found = [
        {"loss": losses[i].numpy(), "predictions": outputs["predictions"][i].numpy()}
        for i in range(len(rows))
    ]
    scores = task.score(SplitData("dev", (), rows), found)
    mean = recorded.output(TASK, "loss").sum() / masks.sum()
    comparison.close("score's loss", scores.metrics["loss"], mean, TOLERANCE)
    right = (predictions == recorded.arrays[f"in/{TASK}_labels"]) * masks
    accuracy = 100 * right.sum() / masks.sum()
    comparison.close("accuracy", scores.metrics["accuracy"], accuracy, TOLERANCE)
    return comparison.result()
