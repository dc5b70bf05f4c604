"""The work of one build process: makes its shards from its units of the corpus."""

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from electra_tf.util.tensorflow_import import no_garbage_collection
from pretrain_data.build.corpus_builder import CorpusBuilder
from pretrain_data.build.jobs import BuildJob, BuildResult, merge_results
from pretrain_data.parallel.counts import BuildCounts

if TYPE_CHECKING:
    from pretrain_data.examples.example_writer import ExampleWriter


def run_job(job: BuildJob, report: Callable[[BuildCounts], None]) -> BuildResult:
    """Builds the shards of `job`, calling `report` at the start and after every block.

    Raises:
        UserError: a corpus file cannot be read, or a shard cannot be written.
        WorkerError: any other failure, with the file that was being read.
    """
    builder = CorpusBuilder(job.config, job.vocabulary)
    writer = _make_writer(job, job.temporary_dir, job.shard_indices, job.num_shards)
    held_out_writer = None
    if job.held_out_dir is not None:
        held_out_writer = _make_writer(job, job.held_out_dir, [job.index], job.num_processes)
    report(BuildCounts())  # the start is over
    result = BuildResult()
    # The build makes millions of lists but no cycles.
    with no_garbage_collection():
        for unit in job.units:
            fates = job.fates[unit.index] if job.fates is not None else None
            for built in builder.build(unit, fates):
                writer.write(built.examples)
                if held_out_writer is not None:
                    held_out_writer.write(built.held_out)
                report(result.totals.plus(built.totals))
            result = merge_results(result, builder.result())
    result = _close(writer, job.temporary_dir, result)
    if held_out_writer is not None:
        held_out = _close(held_out_writer, job.held_out_dir, result.held_out)
        result = result._replace(held_out=held_out)
    return result


def _make_writer(
    job: BuildJob, directory: pathlib.Path, shard_indices: list[int], num_shards: int
) -> "ExampleWriter":
    from pretrain_data.examples.example_writer import ExampleWriter

    return ExampleWriter(
        directory, shard_indices, num_shards, job.config.max_seq_length, job.vocabulary.size
    )


def _close(
    writer: "ExampleWriter", directory: pathlib.Path, result: BuildResult
) -> BuildResult:
    """Returns the result with the number of records and the SHA-256 of each shard."""
    from pretrain_data.records.files import file_sha256

    shards = writer.close()
    # Reads the shards while the system still caches them, 200 times as fast as building them.
    hashes = {name: file_sha256(str(directory / name)) for name in shards}
    return result._replace(shards=shards, shard_sha256=hashes)
