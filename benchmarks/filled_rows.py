r"""Compares ways to fill rows: rows, padding, and rows that end where a sentence does.

    python -m benchmarks.filled_rows --input corpus --max_seq_length 64,128

Sentences are those of `sentencex` in the language of --sentence_language, the same that
--sentences=split makes. Times are those of one process in a build of records, without its
start, in interleaved runs. Needs `pip install 'electra-tf[corpus]'`.
"""

import dataclasses
import pathlib
import random
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator

from absl import flags

from electra_tf.text.framing import Framed
from electra_tf.util.console import discard, markdown_table
from electra_tf.util.tensorflow_import import import_tensorflow
from flags.command_line import program
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.inputs import find_inputs
from pretrain_data.corpus.partition import CorpusPart
from pretrain_data.corpus.sentences import SentenceSplitter

_INPUT = flags.DEFINE_list("input", ["demo/corpus"], "Files, globs and folders.")
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file", "recipes/vocab/bert_uncased_vocab.txt", "WordPiece vocabulary."
)
_LENGTHS = flags.DEFINE_list("max_seq_length", ["64", "128"], "Sequence lengths.")
_LANGUAGE = flags.DEFINE_string("sentence_language", "en", "Language of the text.")
_LINES_ARE_DOCUMENTS = flags.DEFINE_boolean(
    "lines_are_documents", False, "Take each line for a document."
)
_RUNS = flags.DEFINE_integer("runs", 0, "Timed builds of each; 0 times none.", lower_bound=0)

SETTINGS = {
    "`--authors_trimming`": {"authors_trimming": True},
    "`--authors_trimming --sentences=split`": {"authors_trimming": True, "sentences": "split"},
    "default": {},
    "`--sentences=split`": {"sentences": "split"},
    "`--pack`": {"pack": True},
    "`--pack --sentences=split`": {"pack": True, "sentences": "split"},
}


@dataclasses.dataclass
class Rows:
    """Counts of the rows of one setting."""

    num_rows: int = 0
    num_positions: int = 0
    num_tokens: int = 0
    num_at_sentences: int = 0


def main() -> None:
    """Prints a table of rows per length, and one of times."""
    import_tensorflow()
    parts = find_inputs(_INPUT.value).parts
    for length in map(int, _LENGTHS.value):
        counts = {name: count_rows(parts, length, **more) for name, more in SETTINGS.items()}
        num_read = max(rows.num_tokens for rows in counts.values())
        table = [
            (
                name,
                f"{rows.num_rows:,}",
                f"{rows.num_tokens / num_read:.1%}",
                f"{1 - rows.num_positions / (rows.num_rows * length):.1%}",
                f"{rows.num_at_sentences / rows.num_rows:.1%}",
            )
            for name, rows in counts.items()
        ]
        header = (f"{length} tokens", "rows", "tokens kept", "padding", "end at sentences")
        print(f"\n{markdown_table(header, table, text_columns=1)}", flush=True)
    if _RUNS.value:
        print_times()


def count_rows(parts: tuple[CorpusPart, ...], length: int, **settings: object) -> Rows:
    """Returns the counts of the rows that the builder makes of the corpus."""
    from electra_tf.text.cached_tokenizer import CorpusTokenizer
    from electra_tf.text.tokenizer import Tokenizer
    from electra_tf.text.vocabulary import load_vocabulary
    from pretrain_data.build.corpus_builder import build_examples, make_builder

    vocabulary = load_vocabulary(pathlib.Path(_VOCAB_FILE.value))
    nowhere = pathlib.Path()
    config = CorpusBuildConfig(None, nowhere, nowhere, length, **settings)
    tokenizer = CorpusTokenizer(Tokenizer(vocabulary))
    splitter = SentenceSplitter(_LANGUAGE.value)
    builder = make_builder(config, vocabulary, random.Random(0))
    rows = Rows()
    ends = _SentenceEnds(vocabulary.size if config.authors_trimming else None)
    for block in _blocks(parts):
        sentences = splitter.split_block(block)
        ids_of_lines = tokenizer.tokenize(sentences.lines)
        for ids in ids_of_lines:
            ends.add(ids)
        if config.sentences == "split":
            block = sentences
        else:
            ids_of_lines = _joined(block, splitter, ids_of_lines)
        for example in build_examples(block, ids_of_lines, builder, True):
            _count(example, ends, rows)
    for example in builder.finish():
        _count(example, ends, rows)
    return rows


class _SentenceEnds:
    """Knows at which tokens sentences end, by their position in the text.

    A builder that drops tokens is given other ids for them, which it does not look at.
    """

    def __init__(self, offset: int | None):
        self._offset = offset
        self._positions: set[int] = set()
        self._num_read = self._num_written = 0

    def add(self, ids: array) -> None:
        """Takes the ids of a sentence."""
        self._num_read += len(ids)
        if self._offset is None:
            self._positions.add(self._num_read)
        elif ids:
            ids[-1] += self._offset

    def is_at_end(self, num_tokens: int, last_id: int) -> bool:
        """Whether the next row, of `num_tokens`, ends where a sentence does."""
        self._num_written += num_tokens
        if self._offset is None:
            return self._num_written in self._positions
        return last_id >= self._offset


def _blocks(parts: tuple[CorpusPart, ...]) -> Iterator[Block]:
    for part in parts:
        for block in part.read():
            if _LINES_ARE_DOCUMENTS.value:
                ends = range(1, len(block.lines) + block.ends_line)
                block = dataclasses.replace(block, document_ends=tuple(ends))
            yield block


def _joined(block: Block, splitter: SentenceSplitter, ids_of_sentences: list) -> list:
    """Returns the ids of lines, given those of their sentences."""
    following = iter(ids_of_sentences)
    joined = []
    for line in block.lines:
        ids = next(following)
        for _ in splitter.split_line(line)[1:]:
            ids += next(following)
        joined.append(ids)
    return joined


def _count(example: Framed, ends: _SentenceEnds, rows: Rows) -> None:
    ids = example.input_ids
    num_tokens = len(ids) - example.num_special
    rows.num_rows += 1
    rows.num_positions += len(ids)
    rows.num_tokens += num_tokens
    rows.num_at_sentences += ends.is_at_end(num_tokens, ids[-2])


def print_times() -> None:
    """Prints the rate of a build with each setting, in medians of interleaved runs."""
    from pretrain_data.build.dataset import build_pretraining_data

    seconds: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(_RUNS.value):
        for name, settings in SETTINGS.items():
            seconds[name].append(_timed(build_pretraining_data, settings))
    reference = statistics.median(seconds["default"])
    table = [
        (name, f"{statistics.median(times):.1f}", f"{reference / statistics.median(times):.2f}")
        for name, times in seconds.items()
    ]
    print(f"\n{markdown_table(('build', 'CPU s', 'rate'), table, text_columns=1)}")


def _timed(build: Callable, settings: dict[str, object]) -> float:
    with tempfile.TemporaryDirectory() as output_dir:
        config = CorpusBuildConfig(
            None,
            pathlib.Path(_VOCAB_FILE.value),
            pathlib.Path(output_dir),
            int(_LENGTHS.value[-1]),
            inputs=tuple(_INPUT.value),
            sentence_language=_LANGUAGE.value,
            **settings,
        )
        start = time.process_time()
        build(config, discard)
        return time.process_time() - start


if __name__ == "__main__":
    program.run(main)
