"""Reads JSONL files: one JSON object per line, whose text is one document."""

import dataclasses
from collections.abc import Iterator
from typing import BinaryIO, Self

from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.files import loads_json
from electra_tf.util.paths import open_binary
from pretrain_data.corpus.blocks import NOW_SHORTER, Block
from pretrain_data.corpus.documents import read_records
from pretrain_data.corpus.readers.byte_range import ByteRange
from pretrain_data.corpus.readers.compression import compression_of, uncompressed
from pretrain_data.corpus.readers.content import check_utf8
from pretrain_data.corpus.unreadable import FILE, UnreadableError, naming_file

FIELD_FLAG = "--text_field"
# A record is read as a whole; a longer line is not taken for JSONL.
MAX_RECORD_BYTES = 256 << 20
_KINDS = {
    bool: "a boolean",
    dict: "an object",
    float: "a number",
    int: "a number",
    list: "an array",
    str: "a string",
    type(None): "null",
}


@dataclasses.dataclass(frozen=True)
class JsonLinesPart(ByteRange):
    """A JSONL file, or a byte range of an uncompressed one.

    Attributes:
        text_field: key of the text in each object.
    """

    text_field: str = "text"

    def read(self) -> Iterator[Block]:
        """Yields the texts of the records in blocks.

        Raises:
            UnreadableError: the file cannot be read, or a line is not a JSON object.
            UserError: an object lacks the field, or its value is not a string.
        """
        with (
            naming_file(self.path, self.flag, compression_of(self.path)),
            open_binary(self.path) as raw,
        ):
            check_utf8(uncompressed(raw, self.path), self.path, self.flag)
            raw.seek(self.start)
            texts = self._texts(uncompressed(raw, self.path))
            yield from read_records(texts, str(self.path), raw.tell)

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool = False
    ) -> tuple[Self, Self]:
        """Splits the part after the line that contains `offset`; see `TextPart.split`."""
        del at_documents, whole_documents  # every line is a document
        with naming_file(self.path, self.flag, None), open_binary(self.path) as f:
            f.seek(self.start + offset)
            f.readline()
            boundary = f.tell()
        return self.cut_at(boundary)

    def _texts(self, stream: BinaryIO) -> Iterator[tuple[str | None, int]]:
        position, number = self.start, 0
        while self._continues(position) and (line := stream.readline(MAX_RECORD_BYTES + 1)):
            position += len(line)
            number += 1
            if len(line) > MAX_RECORD_BYTES:
                raise self._unreadable(number, f"is longer than {MAX_RECORD_BYTES:,} bytes")
            if position == len(line):
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.isspace():
                continue
            content = line.decode("utf-8", errors="replace")
            num_repairs = content.count("\ufffd") - line.count("\ufffd".encode())
            try:
                record = loads_json(content)
            except (ValueError, RecursionError) as error:
                reason = getattr(error, "msg", str(error))
                raise self._unreadable(number, f"is not valid JSON: {reason}") from error
            yield self._text(record, number), num_repairs
        if self.is_divisible and position < self.end:
            raise OSError(NOW_SHORTER)

    def _continues(self, position: int) -> bool:
        return not self.is_divisible or position < self.end

    def _text(self, record: object, number: int) -> str | None:
        if not isinstance(record, dict):
            kind = _KINDS[type(record)]
            raise self._unreadable(number, f"must be a JSON object, and is {kind}")
        if self.text_field not in record:
            hint = nearest_name_hint(self.text_field, record)
            names = ", ".join(record) or "none"
            raise UserError(
                f"{self._where(number)} has no field {self.text_field!r} ({FIELD_FLAG}); its "
                f"fields are: {names}.{hint}"
            )
        value = record[self.text_field]
        if value is not None and not isinstance(value, str):
            raise UserError(
                f"{self._where(number)}: the field {self.text_field!r} ({FIELD_FLAG}) must be "
                f"text, and is {_KINDS[type(value)]}"
            )
        return value

    def _unreadable(self, number: int, reason: str) -> UnreadableError:
        reason = f"has a bad line {self._line_number(number)}, which {reason}"
        return UnreadableError(FILE, self.path, self.flag, reason)

    def _where(self, number: int) -> str:
        return f"{FILE} {self.path} ({self.flag}), line {self._line_number(number)}"

    def _line_number(self, number: int) -> int:
        """Returns the line number in the file of a line of the part."""
        with open_binary(self.path) as f:
            while f.tell() < self.start:
                f.readline()
                number += 1
        return number
