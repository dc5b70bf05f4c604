"""What the processes of a build are given, and what they return."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

from electra_tf.text.vocabulary import Vocabulary
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.counts import BuildCounts
from pretrain_data.corpus.partition import CorpusPart


@dataclasses.dataclass(frozen=True)
class BuildJob:
    """The work of one process.

    Attributes:
        index: index of the process.
        parts: text to read, in order.
        config: settings of the build, with those of the tokenizer known.
        vocabulary: WordPiece vocabulary.
        temporary_dir: directory of the shards.
        shard_indices: shards to write.
        num_shards: number of shards of all processes.
        num_processes: number of processes that have text.
        fates: what to do with each document (`selection.select_documents`); None builds all.
        held_out_dir: directory of the held-out shards, one per process; None if nothing is
            held out.
        held_out_text_bytes: size of the held-out documents.
    """

    index: int
    parts: list[CorpusPart]
    config: CorpusBuildConfig
    vocabulary: Vocabulary
    temporary_dir: pathlib.Path
    shard_indices: list[int]
    num_shards: int
    num_processes: int
    fates: bytes | None = None
    held_out_dir: pathlib.Path | None = None
    held_out_text_bytes: int = 0


class BuildResult(NamedTuple):
    """Outcome of one process; what it held out is counted in `held_out` alone."""

    totals: BuildCounts
    shards: dict[str, int]
    shard_sha256: dict[str, str]
    invalid_utf8: dict[str, int]
    dropped_tokens: Mapping[str, int]
    unreadable: dict[str, str]
    null_texts: Mapping[str, int]
    num_packed: int = 0
    num_left_out: Mapping[int, int] = {}  # documents, by fate
    held_out: "BuildResult | None" = None
