"""Makes the examples of units of a corpus, and counts what it does."""

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.text.framing import Framed
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError
from electra_tf.util.tensorflow_import import import_tensorflow
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.jobs import BuildResult
from pretrain_data.build.selection import HELD_OUT, SelectingBuilder, UnitFates
from pretrain_data.build.units import Unit
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import document_spans, is_blank
from pretrain_data.corpus.sentences import SentenceSplitter
from pretrain_data.corpus.unreadable import UnreadableError
from pretrain_data.examples.example_builder import Builder, ExampleBuilder
from pretrain_data.examples.packing_builder import PackingExampleBuilder
from pretrain_data.examples.trimming_builder import TrimmingExampleBuilder
from pretrain_data.parallel.counts import BuildCounts, WorkerError


class BuiltBlock(NamedTuple):
    """What a block of text completes.

    Attributes:
        examples: to train on.
        held_out: to evaluate on.
        totals: of the unit so far.
    """

    examples: list[Framed]
    held_out: list[Framed]
    totals: BuildCounts


class CorpusBuilder:
    """Makes the examples of one unit after another."""

    def __init__(self, config: CorpusBuildConfig, vocabulary: Vocabulary):
        """Initializes the builder, which takes seconds: it imports TensorFlow.

        Args:
            config: settings of the build, with those of the tokenizer known.
            vocabulary: WordPiece vocabulary.
        """
        import_tensorflow()
        from electra_tf.text.cached_tokenizer import CorpusTokenizer
        from electra_tf.text.tokenizer import Tokenizer

        _use_one_thread_and_no_gpu()
        self._config = config
        self._vocabulary = vocabulary
        self._tokenizer = CorpusTokenizer(
            Tokenizer(vocabulary, config.do_lower_case, config.strip_accents)
        )
        self._splitter = None
        if config.sentences == "split":
            self._splitter = SentenceSplitter(config.sentence_language)
        # The second one is for held-out documents.
        self._builders = [
            make_builder(config, vocabulary, random.Random())
            for _ in range(2 if config.selects_documents else 1)
        ]

    def build(self, unit: Unit, fates: UnitFates | None = None) -> Iterator[BuiltBlock]:
        """Yields the examples of a unit; `result` has its counts afterwards.

        Args:
            unit: the text.
            fates: of its documents; None builds all.

        Raises:
            UserError: a corpus file cannot be read.
            WorkerError: any other failure, with the file that was being read.
        """
        self._start(unit, fates)
        for part in unit.parts:
            path = str(part.path)
            num_kept = 0
            try:
                for block in part.read():
                    path = block.path
                    num_kept += block.num_text_bytes
                    yield self._build_block(block)
            except UnreadableError as error:
                if not self._config.skip_unreadable:
                    raise
                kept = (
                    f"; the {num_kept:,} bytes of text before that are kept" if num_kept else ""
                )
                self._unreadable[error.path] = f"{error.reason}{kept}"
                yield self._built(self._builder.end_document())
            except UserError:
                raise
            except Exception as error:
                raise WorkerError(f"Building failed in {path}: {error!r}") from error
        yield self._built(self._builder.finish())

    def result(self) -> BuildResult:
        """Returns the counts of the unit that `build` has read, without any shards."""
        builder, totals = self._builders[0], self._totals
        result = BuildResult(
            totals,
            invalid_utf8=dict(self._invalid_utf8),
            dropped_tokens=dict(self._builder.dropped_tokens),
            unreadable=self._unreadable,
            null_texts=dict(self._null_texts),
            num_packed=builder.num_packed,
        )
        if self._selecting is not None:
            result = self._without_held_out(result, self._selecting)
        for checked in (result, result.held_out):
            if checked is not None:
                _check_tokens(checked)
        return result

    def _start(self, unit: Unit, fates: UnitFates | None) -> None:
        seed = self._config.seed
        self._fates = fates
        self._totals = self._held_out_totals = BuildCounts()
        self._invalid_utf8: Counter[str] = Counter()
        self._null_texts: Counter[str] = Counter()
        self._unreadable: dict[str, str] = {}
        self._builder = self._builders[0]
        self._builder.start(unit.rng(seed))
        self._selecting = None
        if fates is not None:
            self._builders[1].start(unit.rng(seed, held_out=True))
            self._selecting = SelectingBuilder(fates.fates, *self._builders)
            self._builder = self._selecting

    def _build_block(self, block: Block) -> BuiltBlock:
        if self._splitter is not None:
            block = self._splitter.split_block(block)
        lines = self._tokenizer.tokenize(block.lines)
        examples = list(
            build_examples(block, lines, self._builder, self._config.blanks_separate_docs)
        )
        if block.num_repairs:
            self._invalid_utf8[block.path] += block.num_repairs
        if block.num_nulls:
            self._null_texts[block.path] += block.num_nulls
        read = BuildCounts(
            block.num_disk_bytes,
            block.num_text_bytes,
            block.num_lines,
            tokens_read=sum(map(len, lines)),
        )
        return self._built(examples, read)

    def _built(self, examples: list[Framed], read: BuildCounts | None = None) -> BuiltBlock:
        """Counts examples, and those of the held-out documents that are complete by now."""
        held_out: list[Framed] = []
        if self._selecting is not None:
            held_out, self._selecting.held_out = self._selecting.held_out, []
            self._held_out_totals = self._held_out_totals.plus(self._written(held_out))
        totals = self._totals.plus(self._written(examples)).plus(read or BuildCounts())
        self._totals = totals._replace(documents=self._builder.num_documents)
        return BuiltBlock(examples, held_out, self._totals)

    def _written(self, examples: Sequence[Framed]) -> BuildCounts:
        ids = np.frombuffer(b"".join(example.input_ids for example in examples), np.intc)
        return BuildCounts(
            examples=len(examples),
            tokens_written=len(ids) - sum(example.num_special for example in examples),
            padding=len(examples) * self._config.max_seq_length - len(ids),
            unknown=int(np.count_nonzero(ids == self._vocabulary.unk_id)),
            words=self._vocabulary.count_words(ids),
        )

    def _without_held_out(
        self, result: BuildResult, selecting: SelectingBuilder
    ) -> BuildResult:
        """Moves the counts of what was held out into a result of its own."""
        result = result._replace(num_left_out=selecting.num_left_out)
        if not self._config.eval_fraction:
            return result
        builder = self._builders[1]
        held_out = self._held_out_totals._replace(
            text_bytes=self._fates.held_out_text_bytes,
            lines=selecting.num_lines[HELD_OUT],
            documents=builder.num_documents,
            tokens_read=selecting.num_tokens[HELD_OUT],
        )
        totals = result.totals._replace(
            text_bytes=result.totals.text_bytes - held_out.text_bytes,
            lines=result.totals.lines - held_out.lines,
            tokens_read=result.totals.tokens_read - held_out.tokens_read,
        )
        return result._replace(
            totals=totals,
            held_out=BuildResult(
                held_out,
                dropped_tokens=dict(builder.dropped_tokens),
                num_packed=builder.num_packed,
            ),
        )


def make_builder(
    config: CorpusBuildConfig, vocabulary: Vocabulary, rng: random.Random
) -> Builder:
    """Returns the builder of the settings."""
    if config.authors_trimming:
        return TrimmingExampleBuilder(vocabulary, config.max_seq_length, rng)
    builder_class = PackingExampleBuilder if config.pack else ExampleBuilder
    return builder_class(
        vocabulary,
        config.max_seq_length,
        rng,
        lines_are_sentences=config.sentences == "split",
    )


def build_examples(
    block: Block,
    ids_of_lines: Sequence[Sequence[int]],
    builder: Builder,
    blanks_separate_docs: bool,
) -> Iterator[Framed]:
    """Yields the examples completed by the lines of `block` and the end of its file.

    Args:
        block: the text.
        ids_of_lines: token ids of each line.
        builder: makes the examples.
        blanks_separate_docs: whether a blank line ends a document.
    """
    incomplete = len(block.lines) - 1 if not block.ends_line else None
    for start, stop, ends_document in document_spans(block, blanks_separate_docs):
        for i in range(start, stop):
            line = block.lines[i]
            if (line and not line.isspace()) or not is_blank(block, i):
                yield from builder.add_line(ids_of_lines[i], i != incomplete)
        if ends_document:
            yield from builder.end_document()


def _check_tokens(result: BuildResult) -> None:
    totals, num_dropped = result.totals, sum(result.dropped_tokens.values())
    if totals.tokens_read != totals.tokens_written + num_dropped:
        raise WorkerError(
            f"{totals.tokens_read:,} tokens were read, but {totals.tokens_written:,} written "
            f"and {num_dropped:,} dropped."
        )


def _use_one_thread_and_no_gpu() -> None:
    import tensorflow as tf

    # TensorFlow raises once it is initialized; the caller has configured it then.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
