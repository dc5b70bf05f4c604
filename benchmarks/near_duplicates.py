r"""Measures --deduplicate=near: rate, memory, and which near duplicates are found.

    python -m benchmarks.near_duplicates --input corpus --num_documents 20000

Documents are lines of at least --min_words words. Their near duplicates are made by changing
a share of the words; what should be found follows from the sets of shingles. Times are of
one core; signatures are computed by every process, the index is made by one. Needs `pip
install 'electra-tf[corpus]'`.
"""

import random
import time
import tracemalloc

import numpy as np
from absl import flags

from electra_tf.util.console import markdown_table
from flags.command_line import program
from pretrain_data.build.near_duplicates import DocumentSigner, find_near_duplicates
from pretrain_data.corpus.inputs import find_inputs

_INPUT = flags.DEFINE_list("input", ["demo/corpus"], "Files, globs and folders.")
_NUM_DOCUMENTS = flags.DEFINE_integer("num_documents", 2000, "Number of documents.")
_MIN_WORDS = flags.DEFINE_integer("min_words", 50, "Words of the shortest document.")
_THRESHOLD = flags.DEFINE_float("threshold", 0.8, "As --near_duplicate_threshold.")
_WORDS = flags.DEFINE_integer("words", 5, "As --near_duplicate_words.")
_PERMUTATIONS = flags.DEFINE_integer("permutations", 128, "As --near_duplicate_permutations.")
_CHANGED = flags.DEFINE_list("changed", ["0.01", "0.02", "0.03", "0.05", "0.1"], "Shares.")


def main() -> None:
    """Prints rates and memory, and a table of what is found by the share of changed words."""
    documents = _documents()
    num_bytes = sum(len(text.encode()) for text in documents)
    start = time.process_time()
    signatures = _sign(documents)
    seconds = time.process_time() - start
    print(
        f"{len(documents):,} documents, {num_bytes / 1e6:.1f} MB: signatures at "
        f"{num_bytes / 1e6 / seconds:.1f} MB/s"
    )
    start = time.process_time()
    number = find_near_duplicates(signatures, _THRESHOLD.value).sum()
    seconds = time.process_time() - start
    tracemalloc.start()
    find_near_duplicates(signatures, _THRESHOLD.value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"Index: {len(documents) / seconds:,.0f} documents/s; bytes per document: "
        f"{signatures.nbytes / len(documents):,.0f} of signature, "
        f"{peak / len(documents):,.0f} of index; {number:,} near duplicates",
        flush=True,
    )
    table = [_found(documents, signatures, float(share)) for share in _CHANGED.value]
    header = ("words changed", "similarity", f"at least {_THRESHOLD.value}", "found of them")
    print(f"\n{markdown_table((*header, 'of the others'), table, text_columns=1)}")


def _documents() -> list[str]:
    lines = (
        line
        for part in find_inputs(_INPUT.value).parts
        for block in part.read()
        for line in block.lines
        if len(line.split()) >= _MIN_WORDS.value
    )
    return [line for line, _ in zip(lines, range(_NUM_DOCUMENTS.value), strict=False)]


def _sign(documents: list[str]) -> np.ndarray:
    signer = DocumentSigner(_WORDS.value, _PERMUTATIONS.value)
    signatures = []
    for text in documents:
        signer.add_line(text)
        signatures.append(signer.end_document())
    return np.stack(signatures)


def _found(documents: list[str], signatures: np.ndarray, share: float) -> tuple[str, ...]:
    """Returns a row of the table."""
    rng = random.Random(0)
    copies, similarities = [], []
    for text in documents:
        words = text.split()
        changed = [f"x{rng.random()}" if rng.random() < share else word for word in words]
        copies.append(" ".join(changed))
        similarities.append(_similarity(words, changed))
    both = np.concatenate([signatures, _sign(copies)])
    found = find_near_duplicates(both, _THRESHOLD.value)[len(documents) :]
    similarity = np.array(similarities)
    similar = similarity >= _THRESHOLD.value
    return (
        f"{share:.0%}",
        f"{similarity.mean():.2f}",
        f"{similar.mean():.1%}",
        _share(found[similar]),
        _share(found[~similar]),
    )


def _similarity(first: list[str], second: list[str]) -> float:
    a, b = (
        {tuple(words[i : i + _WORDS.value]) for i in range(len(words) - _WORDS.value + 1)}
        for words in (first, second)
    )
    return len(a & b) / max(1, len(a | b))


def _share(found: np.ndarray) -> str:
    return f"{found.mean():.1%}" if len(found) else ""


if __name__ == "__main__":
    program.run(main)
