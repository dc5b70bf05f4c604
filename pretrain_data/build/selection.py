"""Which documents are trained on, held out, or left out as duplicates.

A first pass hashes the documents of all units. The hashes determine the fates, so a document
has the same fate with any number of processes. A hash covers the non-blank lines of the
document, without the byte order mark and the CR of CR LF that text files may have. Near
duplicates are found by signatures of the same pass.
"""

import codecs
import dataclasses
import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.text.framing import Framed
from electra_tf.util.errors import UserError
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.near_duplicates import DocumentSigner, find_near_duplicates
from pretrain_data.build.units import Unit
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import document_spans, is_blank
from pretrain_data.corpus.unreadable import UnreadableError
from pretrain_data.examples.example_builder import Builder
from pretrain_data.parallel.counts import BuildCounts, WorkerError

TRAINED_ON, HELD_OUT, DUPLICATE, NEAR_DUPLICATE = range(4)
DEDUPLICATE_CHOICES = ("none", "exact", "near")
# Causes of dropped tokens.
CAUSES = {DUPLICATE: "duplicate documents", NEAR_DUPLICATE: "near-duplicate documents"}
DIGEST_BYTES = 16
_CORPUS_CHANGED = (
    "The corpus has changed since its documents were hashed, so it is unknown which of them to "
    "hold out or leave out: build again while no program writes to it"
)


@dataclasses.dataclass(frozen=True)
class ScanJob:
    """The documents that one process hashes.

    Attributes:
        index: index of the process.
        units: text to read, in order.
        config: settings of the build.
    """

    index: int
    units: list[Unit]
    config: CorpusBuildConfig


class UnitFates(NamedTuple):
    """What to do with the documents of a unit.

    Attributes:
        fates: of each document in order, one byte each.
        held_out_text_bytes: size of the held-out ones.
    """

    fates: bytes
    held_out_text_bytes: int


class DocumentHashes(NamedTuple):
    """Documents of one unit, in the order of reading.

    Attributes:
        digests: of `DIGEST_BYTES` each.
        text_bytes: size of each document.
        signatures: uint32 [documents with words, permutations]; None if they are not needed.
        is_signed: which documents those are, one byte each.
    """

    digests: bytes
    text_bytes: array
    signatures: np.ndarray | None = None
    is_signed: bytes = b""


def scan_documents(job: ScanJob, report: Callable[[BuildCounts], None]) -> list[DocumentHashes]:
    """Hashes the documents of each unit of `job`, calling `report` after every block.

    Raises:
        UserError: a corpus file cannot be read.
        WorkerError: any other failure, with the file that was being read.
    """
    hashes: list[DocumentHashes] = []
    done = BuildCounts()
    for unit in job.units:
        scan, totals = _Scan(job.config), BuildCounts()
        for totals in _scan_unit(unit, job.config, scan):
            report(done.plus(totals))
        done = done.plus(totals)
        hashes.append(scan.hashes())
    return hashes


def _scan_unit(unit: Unit, config: CorpusBuildConfig, scan: "_Scan") -> Iterator[BuildCounts]:
    """Gives a unit to `scan`; yields the totals after every block."""
    totals = BuildCounts()
    for part in unit.parts:
        try:
            for block in part.read():
                scan.add_block(block, config.blanks_separate_docs)
                read = BuildCounts(block.num_disk_bytes, block.num_text_bytes)
                totals = totals.plus(read)._replace(examples=len(scan.text_bytes))
                yield totals
        except UnreadableError:
            if not config.skip_unreadable:
                raise
            scan.end_document()
        except UserError:
            raise
        except Exception as error:
            raise WorkerError(f"Reading failed in {part.path}: {error!r}") from error


class _Scan:
    """Hashes documents line by line."""

    def __init__(self, config: CorpusBuildConfig) -> None:
        self.digests = bytearray()
        self.text_bytes = array("Q")
        self._signer = None
        if config.deduplicate == "near":
            self._num_permutations = config.near_duplicate_permutations
            self._signer = DocumentSigner(config.near_duplicate_words, self._num_permutations)
        self._signatures = bytearray()
        self._is_signed = bytearray()
        self._start_document()

    def add_block(self, block: Block, blanks_separate_docs: bool) -> None:
        incomplete = len(block.lines) - 1 if not block.ends_line else None
        for start, stop, ends in document_spans(block, blanks_separate_docs):
            for i in range(start, stop):
                if not is_blank(block, i):
                    self.add_line(block.lines[i], i != incomplete)
            if ends:
                # The last line of a record has no end of line.
                if block.document_ends and stop > start and not is_blank(block, stop - 1):
                    self._length -= 1
                self.end_document()

    def add_line(self, line: str, complete: bool) -> None:
        content = line.encode()
        text = content if self._length else content.removeprefix(codecs.BOM_UTF8)
        self._hash.update(text.removesuffix(b"\r") + b"\n" if complete else text)
        self._length += len(content) + complete
        if self._signer is not None:
            self._signer.add_line(line, complete)

    def end_document(self) -> None:
        if self._length:
            self.digests += self._hash.digest()
            self.text_bytes.append(self._length)
            if self._signer is not None:
                signature = self._signer.end_document()
                self._is_signed.append(signature is not None)
                self._signatures += b"" if signature is None else signature.tobytes()
            self._start_document()

    def hashes(self) -> DocumentHashes:
        signatures = None
        if self._signer is not None:
            values = np.frombuffer(bytes(self._signatures), np.uint32)
            signatures = values.reshape(-1, self._num_permutations)
        return DocumentHashes(
            bytes(self.digests), self.text_bytes, signatures, bytes(self._is_signed)
        )

    def _start_document(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._length = 0


def select_documents(
    hashes: Sequence[DocumentHashes],
    eval_fraction: float,
    deduplicate: str,
    near_duplicate_threshold: float = 1.0,
) -> list[bytes]:
    """Returns the fate of each document of each unit, one byte each.

    Args:
        hashes: documents of each unit, in their order.
        eval_fraction: share of the distinct documents to hold out. It is the documents of the
            lowest hashes, so they stay held out when the corpus grows.
        deduplicate: "exact" keeps the first of equal documents, "near" the first of similar
            ones, too.
        near_duplicate_threshold: see `near_duplicates.find_near_duplicates`.
    """
    counts = [len(share.text_bytes) for share in hashes]
    digests = np.frombuffer(b"".join(share.digests for share in hashes), ">u8").reshape(-1, 2)
    fates = np.full(len(digests), TRAINED_ON, np.uint8)
    fates[digests[:, 0] < np.float64(eval_fraction) * 2.0**64] = HELD_OUT
    if deduplicate != "none":
        # The sort is stable, so the first of equal documents comes first.
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        ordered = digests[order]
        fates[order[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]] = DUPLICATE
    if deduplicate == "near":
        is_signed = np.frombuffer(b"".join(share.is_signed for share in hashes), bool)
        compared = np.flatnonzero(is_signed & (fates != DUPLICATE))
        signatures = np.concatenate([share.signatures for share in hashes])
        rows = (np.cumsum(is_signed) - 1)[compared]
        similar = find_near_duplicates(signatures[rows], near_duplicate_threshold)
        fates[compared[similar]] = NEAR_DUPLICATE
    return [share.tobytes() for share in np.split(fates, np.cumsum(counts)[:-1])]


def unit_fates(hashes: DocumentHashes, fates: bytes) -> UnitFates:
    """Returns the fates of the documents of a unit, with the size of the held-out ones."""
    sizes = zip(hashes.text_bytes, fates, strict=True)
    return UnitFates(fates, sum(size for size, fate in sizes if fate == HELD_OUT))


class SelectingBuilder:
    """Gives each document of a unit to the builder of its fate.

    Attributes:
        held_out: examples of held-out documents, for the caller to take.
        num_documents, dropped_tokens, num_packed: see `Builder`; of the documents that are
            trained on.
        num_left_out: number of documents left out, by fate.
        num_lines: number of lines of each fate that are not blank.
        num_tokens: number of tokens of each fate.
    """

    def __init__(
        self,
        fates: bytes,
        builder: Builder,
        held_out_builder: Builder,
    ):
        """Initializes the builder; its methods raise UserError if `fates` are of other text.

        Args:
            fates: of the documents, in order.
            builder: of documents to train on.
            held_out_builder: of held-out documents.
        """
        self._fates = fates
        self._builder = builder
        self._held_out_builder = held_out_builder
        self._index = 0
        self.held_out: list[Framed] = []
        self._in_document = False
        self.num_left_out = dict.fromkeys(CAUSES, 0)
        self.num_lines = [0, 0, 0, 0]
        self.num_tokens = [0, 0, 0, 0]

    @property
    def num_documents(self) -> int:
        return self._builder.num_documents

    @property
    def num_packed(self) -> int:
        return self._builder.num_packed

    @property
    def dropped_tokens(self) -> dict[str, int]:
        dropped = dict(self._builder.dropped_tokens)
        for fate, cause in CAUSES.items():
            if self.num_left_out[fate]:
                dropped[cause] = self.num_tokens[fate]
        return dropped

    def add_line(self, token_ids: Sequence[int], complete: bool = True) -> list[Framed]:
        """See `Builder.add_line`."""
        self._in_document = True
        fate = self._fate()
        self.num_lines[fate] += complete
        self.num_tokens[fate] += len(token_ids)
        if fate == TRAINED_ON:
            return self._builder.add_line(token_ids, complete)
        if fate == HELD_OUT:
            self.held_out += self._held_out_builder.add_line(token_ids, complete)
        return []

    def end_document(self) -> list[Framed]:
        """See `Builder.end_document`."""
        if not self._in_document:
            return self._builder.end_document()
        fate = self._fate()
        self._index += 1
        self._in_document = False
        if fate == TRAINED_ON:
            return self._builder.end_document()
        if fate == HELD_OUT:
            self.held_out += self._held_out_builder.end_document()
        else:
            self.num_left_out[fate] += 1
        return []

    def finish(self) -> list[Framed]:
        """See `Builder.finish`."""
        if self._index < len(self._fates):
            raise UserError(_CORPUS_CHANGED)
        self.held_out += self._held_out_builder.finish()
        return self._builder.finish()

    def _fate(self) -> int:
        """Returns the fate of the current document."""
        if self._index == len(self._fates):
            raise UserError(_CORPUS_CHANGED)
        return self._fates[self._index]
