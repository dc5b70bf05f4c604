"""The work of one build process: its share of the text to its shards."""

import contextlib
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from electra_tf.text.framing import Framed
from electra_tf.util.errors import UserError
from electra_tf.util.tensorflow_import import import_tensorflow, no_garbage_collection
from pretrain_data.build.counts import BuildCounts, WorkerError
from pretrain_data.build.example_builder import Builder, ExampleBuilder
from pretrain_data.build.jobs import BuildJob, BuildResult
from pretrain_data.build.packing_builder import PackingExampleBuilder
from pretrain_data.build.selection import HELD_OUT, SelectingBuilder
from pretrain_data.build.trimming_builder import TrimmingExampleBuilder
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import document_spans, is_blank
from pretrain_data.corpus.sentences import SentenceSplitter
from pretrain_data.corpus.unreadable import UnreadableError

if TYPE_CHECKING:
    from electra_tf.text.cached_tokenizer import CorpusTokenizer
    from pretrain_data.build.example_writer import ExampleWriter


def run_job(job: BuildJob, report: Callable[[BuildCounts], None]) -> BuildResult:
    """Builds the shards of `job`, calling `report` at the start and after every block.

    Raises:
        UserError: a corpus file cannot be read.
        WorkerError: any other failure, with the file that was being read.
    """
    # TensorFlow takes seconds to import, and the parent process does not need it.
    import_tensorflow()
    from electra_tf.text.cached_tokenizer import CorpusTokenizer
    from electra_tf.text.tokenizer import Tokenizer

    _use_one_thread_and_no_gpu()
    config = job.config
    tokenizer = CorpusTokenizer(
        Tokenizer(job.vocabulary, config.do_lower_case, config.strip_accents)
    )
    builder = make_builder(job, _rng(job))
    held_out_builder = held_out_writer = None
    if job.fates is not None:
        rng = random.Random(f"held out {job.index} {config.seed}")
        held_out_builder = make_builder(job, rng)
        write = None
        if job.held_out_dir is not None:
            held_out_writer = _make_writer(
                job, job.held_out_dir, [job.index], job.num_processes
            )
            write = held_out_writer.write
        builder = SelectingBuilder(job.fates, builder, held_out_builder, write)
    writer = _make_writer(job, job.temporary_dir, job.shard_indices, job.num_shards)
    report(BuildCounts())  # the start is over
    # The build makes millions of lists but no cycles.
    with no_garbage_collection():
        result = _build_shards(job, tokenizer, builder, writer, report)
    if held_out_writer is not None:
        result = _without_held_out(job, result, builder, held_out_builder, held_out_writer)
    elif job.fates is not None:
        result = result._replace(num_left_out=builder.num_left_out)
    for checked in (result, result.held_out):
        if checked is not None:
            _check_tokens(checked)
    return result


def make_builder(job: BuildJob, rng: random.Random) -> Builder:
    """Returns the builder of the settings of `job`."""
    config = job.config
    if config.authors_trimming:
        return TrimmingExampleBuilder(job.vocabulary, config.max_seq_length, rng)
    builder_class = PackingExampleBuilder if config.pack else ExampleBuilder
    return builder_class(
        job.vocabulary,
        config.max_seq_length,
        rng,
        lines_are_sentences=config.sentences == "split",
    )


def _make_writer(
    job: BuildJob, directory: pathlib.Path, shard_indices: list[int], num_shards: int
) -> "ExampleWriter":
    from pretrain_data.build.example_writer import ExampleWriter

    return ExampleWriter(
        directory, shard_indices, num_shards, job.config.max_seq_length, job.vocabulary.size
    )


def _build_shards(
    job: BuildJob,
    tokenizer: "CorpusTokenizer",
    builder: Builder,
    writer: "ExampleWriter",
    report: Callable[[BuildCounts], None],
) -> BuildResult:
    config = job.config
    splitter = None
    if config.sentences == "split":
        splitter = SentenceSplitter(config.sentence_language)
    totals = BuildCounts()
    invalid_utf8: Counter[str] = Counter()
    null_texts: Counter[str] = Counter()
    unreadable: dict[str, str] = {}
    for part in job.parts:
        path = str(part.path)
        try:
            for block in part.read():
                path = block.path
                if splitter is not None:
                    block = splitter.split_block(block)
                lines = tokenizer.tokenize(block.lines)
                for example in build_examples(
                    block, lines, builder, config.blanks_separate_docs
                ):
                    writer.write(example)
                if block.num_repairs:
                    invalid_utf8[path] += block.num_repairs
                if block.num_nulls:
                    null_texts[path] += block.num_nulls
                totals = BuildCounts(
                    totals.disk_bytes + block.num_disk_bytes,
                    totals.text_bytes + block.num_text_bytes,
                    totals.lines + block.num_lines,
                    builder.num_documents,
                    writer.num_written,
                    totals.tokens_read + sum(map(len, lines)),
                    writer.num_tokens,
                    writer.num_padding,
                )
                report(totals)
        except UnreadableError as error:
            if not config.skip_unreadable:
                raise
            unreadable[error.path] = error.reason
            for example in builder.end_document():
                writer.write(example)
        except UserError:
            raise
        except Exception as error:
            raise WorkerError(f"Building failed in {path}: {error!r}") from error
    for example in builder.finish():
        writer.write(example)
    totals = totals._replace(
        documents=builder.num_documents,
        examples=writer.num_written,
        tokens_written=writer.num_tokens,
        padding=writer.num_padding,
    )
    dropped = dict(builder.dropped_tokens)
    shards, hashes = _close(writer, job.temporary_dir)
    return BuildResult(
        totals,
        shards,
        hashes,
        dict(invalid_utf8),
        dropped,
        unreadable,
        dict(null_texts),
        builder.num_packed,
    )


def _close(
    writer: "ExampleWriter", directory: pathlib.Path
) -> tuple[dict[str, int], dict[str, str]]:
    """Returns the number of records and the SHA-256 of each shard."""
    from pretrain_data.records.files import file_sha256

    shards = writer.close()
    # Read back while the system has them in memory, 200 times as fast as they are built.
    return shards, {name: file_sha256(str(directory / name)) for name in shards}


def _without_held_out(
    job: BuildJob,
    result: BuildResult,
    selecting: SelectingBuilder,
    builder: Builder,
    writer: "ExampleWriter",
) -> BuildResult:
    """Moves the counts of what was held out into a result of its own."""
    held_out = BuildCounts(
        text_bytes=job.held_out_text_bytes,
        lines=selecting.num_lines[HELD_OUT],
        documents=builder.num_documents,
        examples=writer.num_written,
        tokens_read=selecting.num_tokens[HELD_OUT],
        tokens_written=writer.num_tokens,
        padding=writer.num_padding,
    )
    totals = result.totals._replace(
        text_bytes=result.totals.text_bytes - held_out.text_bytes,
        lines=result.totals.lines - held_out.lines,
        tokens_read=result.totals.tokens_read - held_out.tokens_read,
    )
    shards, hashes = _close(writer, job.held_out_dir)
    dropped = dict(builder.dropped_tokens)
    return result._replace(
        totals=totals,
        num_left_out=selecting.num_left_out,
        held_out=BuildResult(held_out, shards, hashes, {}, dropped, {}, {}, builder.num_packed),
    )


def _check_tokens(result: BuildResult) -> None:
    totals, num_dropped = result.totals, sum(result.dropped_tokens.values())
    if totals.tokens_read != totals.tokens_written + num_dropped:
        raise WorkerError(
            f"{totals.tokens_read:,} tokens were read, but {totals.tokens_written:,} written "
            f"and {num_dropped:,} dropped."
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


def _rng(job: BuildJob) -> random.Random:
    # The first process makes the same draws as the authors' builder after random.seed(seed).
    return random.Random(
        f"process {job.index} {job.config.seed}" if job.index else job.config.seed
    )


def _use_one_thread_and_no_gpu() -> None:
    import tensorflow as tf

    # TensorFlow raises once it is initialized; the caller has configured it then.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
