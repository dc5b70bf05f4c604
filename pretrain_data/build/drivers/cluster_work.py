"""What the workers of a cluster do: hash documents, build units, write shards.

Beam may run these functions several times: each depends only on its input, and a shard gets its
name when it is complete. The work of a lost worker is repeated, and counts once.
"""

import os
import pickle
import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.extras import import_extra
from electra_tf.util.tensorflow_import import no_garbage_collection
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.corpus_builder import CorpusBuilder
from pretrain_data.build.jobs import BuildResult
from pretrain_data.build.selection import (
    DIGEST_BYTES,
    DUPLICATE,
    DocumentHashes,
    ScanJob,
    UnitFates,
    scan_documents,
    select_documents,
    unit_fates,
)
from pretrain_data.build.units import Unit
from pretrain_data.examples.shard_names import shard_name

# Outputs of the functions besides the main one.
DIGESTS, RESULTS = "digests", "results"
_KEY_BITS = 64


class Place(NamedTuple):
    """Bytes of a unit in the file of `write_units`."""

    offset: int
    size: int


class ShardKey(NamedTuple):
    """A shard to write.

    Attributes:
        directory: folder of the shard.
        index: number of the shard, from 0.
        count: number of shards in the folder.
        held_out: whether its examples are held out.
    """

    directory: str
    index: int
    count: int
    held_out: bool


def write_units(path: str, units: Sequence[Unit]) -> list[tuple[int, Place]]:
    """Writes units to a file, since a pipeline must not contain millions of file names.

    Returns:
        The index and place of each unit.
    """
    import tensorflow as tf

    places = []
    offset = 0
    with tf.io.gfile.GFile(path, "wb") as file:
        for unit in units:
            content = pickle.dumps(unit)
            file.write(content)
            places.append((unit.index, Place(offset, len(content))))
            offset += len(content)
    return places


def read_unit(path: str, place: Place) -> Unit:
    """Returns a unit of `write_units`."""
    import tensorflow as tf

    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(place.offset)
        return pickle.loads(file.read(place.size))


def rename(source: str, target: str) -> None:
    """Renames a file, and replaces an older one of that name."""
    import tensorflow as tf

    tf.io.gfile.rename(source, target, overwrite=True)


class HashDocuments:
    """Hashes the documents of a unit: `(index, hashes)`, and `(digest, (index, number))`."""

    def __init__(self, config: CorpusBuildConfig, units_file: str):
        self._config = config
        self._units_file = units_file

    def __call__(self, element: tuple[int, Place]) -> Iterator[Any]:
        """Yields the outputs of one unit."""
        tagged = import_extra("apache_beam.pvalue", "beam", "--runner").TaggedOutput
        index, place = element
        hashes = hash_unit(read_unit(self._units_file, place), self._config)
        for number in range(len(hashes.text_bytes)):
            start = number * DIGEST_BYTES
            digest = hashes.digests[start : start + DIGEST_BYTES]
            yield tagged(DIGESTS, (digest, (index, number)))
        yield index, hashes


def hash_unit(unit: Unit, config: CorpusBuildConfig) -> DocumentHashes:
    """Returns the hashes of the documents of a unit."""
    (hashes,) = scan_documents(ScanJob(0, [unit], config), lambda totals: None)
    return hashes


def later_of_equal(element: tuple[bytes, Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Returns the unit and number of all but the first of equal documents."""
    _, places = element
    return sorted(places)[1:]


class BuildUnits:
    """Makes the records of units: `(shard, (key, record))`, and a `BuildResult`.

    Shard and key are random: shards sorted by key are shuffled globally.
    """

    def __init__(
        self,
        config: CorpusBuildConfig,
        vocabulary: Vocabulary,
        units_file: str,
        num_shards: int,
        num_held_out_shards: int,
    ):
        """Initializes the function.

        Args:
            config, vocabulary: see `CorpusBuilder`.
            units_file: see `write_units`.
            num_shards, num_held_out_shards: see `shard_keys`.
        """
        self._config = config
        self._vocabulary = vocabulary
        self._units_file = units_file
        self._num_shards = num_shards
        self._num_held_out_shards = num_held_out_shards
        self._builder: CorpusBuilder | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_builder": None, "_serializer": None}

    def __call__(self, element: tuple[int, Any]) -> Iterator[Any]:
        """Yields the outputs of a unit: its place, or groups with hashes and duplicates."""
        tagged = import_extra("apache_beam.pvalue", "beam", "--runner").TaggedOutput
        index, grouped = element
        if isinstance(grouped, dict):
            (place,), (hashes,) = grouped["place"], grouped["hashes"]
            duplicates = list(grouped["duplicates"])
        else:
            place, hashes, duplicates = grouped, None, []
        unit = read_unit(self._units_file, Place(*place))
        fates = self._fates(unit, hashes, duplicates)
        builder = self._start()
        rng = random.Random(f"shuffle {index} {self._config.seed}")
        first_held_out = self._num_shards
        with no_garbage_collection():
            for built in builder.build(unit, fates):
                for record in self._serializer.serialize(built.examples):
                    shard = rng.randrange(self._num_shards)
                    yield shard, (rng.getrandbits(_KEY_BITS), record)
                for record in self._serializer.serialize(built.held_out):
                    shard = first_held_out + rng.randrange(self._num_held_out_shards)
                    yield shard, (rng.getrandbits(_KEY_BITS), record)
        yield tagged(RESULTS, builder.result())

    def _fates(
        self, unit: Unit, hashes: DocumentHashes | None, duplicates: list[int]
    ) -> UnitFates | None:
        if not self._config.selects_documents:
            return None
        hashes = hashes or hash_unit(unit, self._config)
        (selected,) = select_documents([hashes], self._config.eval_fraction, "none")
        fates = bytearray(selected)
        for number in duplicates:
            fates[number] = DUPLICATE
        return unit_fates(hashes, bytes(fates))

    def _start(self) -> CorpusBuilder:
        if self._builder is None:
            self._builder = CorpusBuilder(self._config, self._vocabulary)
            from pretrain_data.examples.example_writer import ExampleSerializer

            self._serializer = ExampleSerializer(
                self._config.max_seq_length, self._vocabulary.size
            )
        return self._builder


class WriteShard:
    """Writes the records of a shard, sorted by key."""

    def __init__(self, shards: Sequence[ShardKey]):
        """Initializes the function with the shards, in the order of their numbers."""
        self._shards = shards

    def __call__(self, element: tuple[int, Iterable[tuple[int, bytes] | None]]) -> BuildResult:
        """Returns the number of records of the shard, and its SHA-256.

        Raises:
            UserError: it cannot be written.
        """
        import tensorflow as tf

        from pretrain_data.examples.example_writer import WRITE_ERRORS
        from pretrain_data.records.files import file_sha256

        number, keyed = element
        shard = self._shards[number]
        records = sorted(each for each in keyed if each is not None)
        name = shard_name(shard.index, shard.count)
        path = os.path.join(shard.directory, name)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            with tf.io.TFRecordWriter(temporary) as writer:
                for _, record in records:
                    writer.write(record)
                writer.flush()
            digest = file_sha256(temporary)
            rename(temporary, path)
        except WRITE_ERRORS as error:
            raise UserError(
                f"Records cannot be written in {shard.directory}: {reason_of(error)}"
            ) from error
        result = BuildResult(shards={name: len(records)}, shard_sha256={name: digest})
        return BuildResult(held_out=result) if shard.held_out else result
