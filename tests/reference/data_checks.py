"""Compares tokens, examples and records with what the authors' code produced."""

import dataclasses
import functools
import hashlib
import json
import pathlib
import random
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from electra_tf.text.cached_tokenizer import CorpusTokenizer
from electra_tf.text.framing import ENCODER_INPUTS, Framed
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import load_vocabulary
from pretrain_data.build.corpus_builder import build_examples
from pretrain_data.corpus.readers.text_files import TextPart
from pretrain_data.examples.example_writer import ExampleSerializer
from pretrain_data.examples.trimming_builder import TrimmingExampleBuilder
from pretrain_data.records.format import parse_records
from tests.reference.result import CheckResult, guarded, skip

# do_lower_case and strip_accents to a tokenizer.
TokenizerOf = Callable[[bool, bool], Tokenizer]

SHARDS = "pretrain_data-*-of-*.tfrecord"
# Key in tokenization.jsonl, do_lower_case, strip_accents.
TOKENIZATION_MODES = (
    ("ids_lower", True, True),
    ("ids_cased", False, False),
    ("ids_lower_keep_accents", True, False),
)


def check_data(reference_dir: pathlib.Path, vocab_file: pathlib.Path) -> Iterator[CheckResult]:
    """Yields one result for each thing that the data path can be compared in.

    Args:
        reference_dir: holds `tokenization.jsonl`, `pretraining_examples_meta.json` and the
            files that it names, and `pretrain_data-*-of-*.tfrecord`.
        vocab_file: the vocabulary that the reference was made with.
    """
    vocabulary = load_vocabulary(vocab_file)
    tokenizer_of = functools.cache(functools.partial(Tokenizer, vocabulary))
    meta = json.loads((reference_dir / "pretraining_examples_meta.json").read_text())
    yield _check_sha256("vocabulary", vocab_file, meta["vocab"]["sha256"])
    yield from guarded(
        "tokenization",
        lambda: check_tokenization(reference_dir / "tokenization.jsonl", tokenizer_of),
    )
    for name, sha256 in meta["corpus_sha256"].items():
        yield _check_sha256(f"corpus {name}", reference_dir / name, sha256)
    for case in meta["cases"]:
        check = functools.partial(check_examples, reference_dir, case, tokenizer_of)
        yield from guarded(f"examples {case['file']}", check)
    yield from check_records(reference_dir, meta["cases"], tokenizer_of)


def check_tokenization(path: pathlib.Path, tokenizer_of: TokenizerOf) -> Iterator[CheckResult]:
    """Compares the ids of every text, in every mode, from the graph and from the cache."""
    rows = [json.loads(line) for line in _lines(path)]
    texts = [row["text"] for row in rows]
    recorded = {key for row in rows for key in row}
    if unknown := recorded - {mode[0] for mode in TOKENIZATION_MODES} - {"text"}:
        yield skip("tokenization not compared", ", ".join(sorted(unknown)))
    for key, do_lower_case, strip_accents in TOKENIZATION_MODES:
        if key not in recorded:
            yield skip(f"tokenization {key}", "not recorded")
            continue
        tokenizer = tokenizer_of(do_lower_case, strip_accents)
        expected = [row[key] for row in rows]
        in_graph = tokenizer.tokenize([text.encode() for text in texts]).to_list()
        cached = [list(ids) for ids in CorpusTokenizer(tokenizer).tokenize(texts)]
        for name, actual in ((f"tokenization {key}", in_graph), (f"corpus {key}", cached)):
            wrong = [i for i, ids in enumerate(actual) if ids != expected[i]]
            detail = f"{len(rows)} lines"
            if wrong:
                detail = f"{len(wrong)} of {len(rows)} lines differ, first line {wrong[0] + 1}"
            yield CheckResult(name, not wrong, detail)


def check_examples(
    reference_dir: pathlib.Path, case: dict, tokenizer_of: TokenizerOf
) -> Iterator[CheckResult]:
    """Compares every example of a case, and the number of random draws."""
    name = f"examples {case['file']}"
    expected = [json.loads(line) for line in _lines(reference_dir / case["file"])]
    rng = random.Random(case["seed"])
    built = list(_build(reference_dir, case, tokenizer_of, rng))
    actual = [{"input_ids": list(e.input_ids), "segment_ids": e.segment_ids} for e in built]
    lengths = [len(e.input_ids) for e in built]
    wrong = [i for i, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b]
    counts = {
        "n_examples": len(built),
        "n_two_segment": sum(e.first_length < len(e.input_ids) for e in built),
        "n_full_length": lengths.count(case["max_seq_length"]),
        "min_len": min(lengths, default=0),
    }
    expected_counts = {**counts, **{key: case[key] for key in counts if key in case}}
    if wrong:
        detail = f"{len(wrong)} of {len(expected)} examples differ, first {wrong[0]}"
    elif counts != expected_counts or len(expected) != len(actual):
        detail = f"{len(expected)} lines, {counts}, expected {expected_counts}"
    else:
        detail = f"{len(actual)} examples"
    passed = actual == expected and counts == expected_counts
    yield CheckResult(name, passed, detail)
    next_random = rng.random()
    yield CheckResult(
        f"random draws {case['file']}",
        next_random == case["next_random_after"],
        f"next draw {next_random}, expected {case['next_random_after']}",
    )


def check_records(
    reference_dir: pathlib.Path, cases: list[dict], tokenizer_of: TokenizerOf
) -> Iterator[CheckResult]:
    """Compares each set of shards with the case of that many shards, record by record."""
    paths = list(reference_dir.glob(SHARDS))
    totals = {int(re.search(r"-of-(\d+)\.", path.name)[1]) for path in paths}
    totals |= {case["num_out_files"] for case in cases if case["num_out_files"] > 1}
    for total in sorted(totals):
        candidates = [case for case in cases if case["num_out_files"] == total]
        details = [
            _compare_shards(reference_dir, case, total, tokenizer_of) for case in candidates
        ]
        passed = None in details
        detail = f"{total} shards" if passed else "; ".join(details) or "no case has this many"
        yield CheckResult(f"records of {total} shards", passed, detail)


def _compare_shards(
    reference_dir: pathlib.Path, case: dict, total: int, tokenizer_of: TokenizerOf
) -> str | None:
    """Returns the first difference: of what is read, or of the parsed protobuf."""
    length = case["max_seq_length"]
    examples = list(_build(reference_dir, case, tokenizer_of, random.Random(case["seed"])))
    vocab_size = tokenizer_of(case["do_lower_case"], case["strip_accents"]).vocabulary.size
    serializer = ExampleSerializer(length, vocab_size)
    for shard in range(total):
        path = reference_dir / f"pretrain_data-{shard}-of-{total}.tfrecord"
        try:
            records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
            read = parse_records(tf.constant(records, tf.string), length)
        except tf.errors.OpError as error:
            return f"{path.name} cannot be read: {error.message}"
        ours = examples[shard::total]
        if len(records) != len(ours):
            return f"{path.name} holds {len(records)} records, not {len(ours)}"
        serialized = serializer.serialize(ours)
        for i, (record, example) in enumerate(zip(records, ours, strict=True)):
            padded = _padded(example, length)
            if any(read[name][i].numpy().tolist() != padded[name] for name in ENCODER_INPUTS):
                return f"{path.name}: record {i} differs"
            theirs = tf.train.Example.FromString(record)
            if tf.train.Example.FromString(serialized[i]) != theirs:
                return f"{path.name}: record {i} is serialized to another message"
    return None


def _padded(example: Framed, length: int) -> dict[str, list[int]]:
    padding = [0] * (length - len(example.input_ids))
    return {
        "input_ids": list(example.input_ids) + padding,
        "input_mask": [1] * len(example.input_ids) + padding,
        "segment_ids": example.segment_ids + padding,
    }


def _build(
    reference_dir: pathlib.Path, case: dict, tokenizer_of: TokenizerOf, rng: random.Random
) -> Iterator[Framed]:
    """Yields the examples of a case; theirs reads lines without their carriage returns."""
    tokenizer = tokenizer_of(case["do_lower_case"], case["strip_accents"])
    corpus_tokenizer = CorpusTokenizer(tokenizer)
    builder = TrimmingExampleBuilder(tokenizer.vocabulary, case["max_seq_length"], rng)
    for name in case["corpora"]:
        path = reference_dir / name
        for block in TextPart(path, 0, path.stat().st_size).read():
            texts = [line.replace("\r", "") for line in block.lines]
            block = dataclasses.replace(block, lines=texts)
            lines = corpus_tokenizer.tokenize(block.lines)
            yield from build_examples(block, lines, builder, case["blanks_separate_docs"])


def _check_sha256(name: str, path: pathlib.Path, expected: str) -> CheckResult:
    actual = hashlib.sha256(path.read_bytes()).hexdigest()
    detail = actual if actual == expected else f"{actual}, expected {expected}"
    return CheckResult(f"sha256 of {name}", actual == expected, detail)


def _lines(path: pathlib.Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
