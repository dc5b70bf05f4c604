"""What the processes of a build are given, and what they return."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.text.vocabulary import Vocabulary
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.selection import UnitFates
from pretrain_data.build.units import Unit
from pretrain_data.parallel.counts import BuildCounts


@dataclasses.dataclass(frozen=True)
class BuildJob:
    """The work of one process.

    Attributes:
        index: index of the process.
        units: text to read, in order.
        config: settings of the build, with those of the tokenizer known.
        vocabulary: WordPiece vocabulary.
        temporary_dir: folder of the shards.
        shard_indices: shards to write.
        num_shards: number of shards of all processes.
        num_processes: number of processes that have text.
        fates: what to do with the documents of each unit, by its index; None builds all.
        held_out_dir: folder of the held-out shards, one per process; None if nothing is
            held out.
    """

    index: int
    units: list[Unit]
    config: CorpusBuildConfig
    vocabulary: Vocabulary
    temporary_dir: pathlib.Path
    shard_indices: list[int]
    num_shards: int
    num_processes: int
    fates: Mapping[int, UnitFates] | None = None
    held_out_dir: pathlib.Path | None = None


class BuildResult(NamedTuple):
    """Outcome of some units; held-out documents are counted in `held_out` only."""

    totals: BuildCounts = BuildCounts()
    shards: Mapping[str, int] = {}
    shard_sha256: Mapping[str, str] = {}
    invalid_utf8: Mapping[str, int] = {}
    dropped_tokens: Mapping[str, int] = {}
    unreadable: Mapping[str, str] = {}
    null_texts: Mapping[str, int] = {}
    num_packed: int = 0
    num_left_out: Mapping[int, int] = {}  # documents, by fate
    held_out: "BuildResult | None" = None


def merge_results(first: BuildResult, second: BuildResult) -> BuildResult:
    """Returns the combined outcome of the units of both, in any order."""
    held_out = first.held_out or second.held_out
    if first.held_out and second.held_out:
        held_out = merge_results(first.held_out, second.held_out)
    return BuildResult(
        first.totals.plus(second.totals),
        {**first.shards, **second.shards},
        {**first.shard_sha256, **second.shard_sha256},
        _sums(first.invalid_utf8, second.invalid_utf8),
        _sums(first.dropped_tokens, second.dropped_tokens),
        {**first.unreadable, **second.unreadable},
        _sums(first.null_texts, second.null_texts),
        first.num_packed + second.num_packed,
        _sums(first.num_left_out, second.num_left_out),
        held_out,
    )


def _sums(first: Mapping[Any, int], second: Mapping[Any, int]) -> dict[Any, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
