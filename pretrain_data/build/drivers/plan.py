"""The plan of a build, and the interface of drivers, which carry it out."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Protocol

from electra_tf.text.vocabulary import Vocabulary
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.jobs import BuildResult
from pretrain_data.build.units import Unit


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Units to build into shards.

    Attributes:
        config: settings; those of the tokenizer are not None.
        vocabulary: WordPiece vocabulary.
        units: the corpus.
        num_disk_bytes: size of the corpus on disk.
        num_shards: number of shards of examples to train on.
        temporary_dir: folder of the shards.
        held_out_dir: folder of the held-out shards; None if nothing is held out.
        print_fn: prints a message.
    """

    config: CorpusBuildConfig
    vocabulary: Vocabulary
    units: list[Unit]
    num_disk_bytes: int
    num_shards: int
    temporary_dir: pathlib.Path
    held_out_dir: pathlib.Path | None
    print_fn: Callable[[str], None]


class Driver(Protocol):
    """Builds the units of a plan, on this machine or on a cluster."""

    def check(self, config: CorpusBuildConfig) -> None:
        """Raises UserError for settings that the driver does not support."""

    def run(self, plan: BuildPlan) -> tuple[list[BuildResult], float]:
        """Writes the shards; returns results that name all of them, and seconds taken.

        Raises:
            UserError: a corpus file cannot be read, or a shard cannot be written.
            WorkerError: it failed for another reason.
        """
