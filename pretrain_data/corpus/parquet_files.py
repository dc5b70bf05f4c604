"""Reads a text column of Parquet files, one row group at a time; each row is one document."""

import dataclasses
import pathlib
import types
from collections.abc import Iterator

from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.extras import import_extra
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import read_records
from pretrain_data.corpus.unreadable import FILE, UnreadableError, naming_file

COLUMN_FLAG = "--text_column"
_ROWS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class ParquetPart:
    """Consecutive row groups of a Parquet file.

    Attributes:
        path: the file.
        first_group: index of the first row group.
        group_bytes: size of the text column in each row group: on disk, and uncompressed.
        text_column: name of the column.
        flag: flag to name in errors.
    """

    path: pathlib.Path
    first_group: int
    group_bytes: tuple[tuple[int, int], ...]
    text_column: str
    flag: str

    @property
    def is_divisible(self) -> bool:
        return len(self.group_bytes) > 1

    @property
    def num_disk_bytes(self) -> int:
        return sum(on_disk for on_disk, _ in self.group_bytes)

    @property
    def weight(self) -> int:
        """Bytes of text."""
        return sum(uncompressed for _, uncompressed in self.group_bytes)

    def read(self) -> Iterator[Block]:
        """Yields the rows in blocks.

        Raises:
            UnreadableError: the file cannot be read, or is damaged.
        """
        done = 0

        def texts() -> Iterator[tuple[str | None, int]]:
            nonlocal done
            for group, (on_disk, _) in enumerate(self.group_bytes, self.first_group):
                for batch in file.iter_batches(
                    _ROWS_AT_ONCE, [group], [self.text_column], use_threads=False
                ):
                    for text in batch.column(0).to_pylist():
                        yield text, 0
                done += on_disk

        arrow = _pyarrow()
        try:
            with naming_file(self.path, self.flag, None), _open(self.path) as file:
                yield from read_records(texts(), str(self.path), lambda: done)
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(self.path, self.flag, error) from error

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool = False
    ) -> tuple["ParquetPart", "ParquetPart"]:
        """Splits the part behind the row group at `offset`, which counts uncompressed bytes."""
        del at_documents, whole_documents  # every row is a document
        count = position = 0
        while count < len(self.group_bytes) and position <= offset:
            position += self.group_bytes[count][1]
            count += 1
        return (
            dataclasses.replace(self, group_bytes=self.group_bytes[:count]),
            dataclasses.replace(
                self,
                first_group=self.first_group + count,
                group_bytes=self.group_bytes[count:],
            ),
        )


def parquet_part(path: pathlib.Path, flag: str, text_column: str) -> ParquetPart:
    """Returns a whole file.

    Raises:
        UserError: pyarrow is not installed, or the column is missing or not of text.
        UnreadableError: it is not a Parquet file.
    """
    arrow = _pyarrow()
    try:
        with naming_file(path, flag, None), _open(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            _check_column(schema, path, flag, text_column)
            column = [
                metadata.schema.column(i).path for i in range(metadata.num_columns)
            ].index(text_column)
            chunks = [
                metadata.row_group(group).column(column) for group in range(file.num_row_groups)
            ]
    except arrow.ArrowException as error:
        raise _damaged(path, flag, error) from error
    sizes = tuple(
        (chunk.total_compressed_size, chunk.total_uncompressed_size) for chunk in chunks
    )
    return ParquetPart(path, 0, sizes, text_column, flag)


def _check_column(schema, path: pathlib.Path, flag: str, text_column: str) -> None:
    where = f"{FILE} {path} ({flag})"
    if text_column not in schema.names:
        raise UserError(
            f"{where} has no column {text_column!r} ({COLUMN_FLAG}); its columns are: "
            f"{', '.join(schema.names)}.{nearest_name_hint(text_column, schema.names)}"
        )
    types_ = _pyarrow().types
    kind = schema.field(text_column).type
    content = kind.value_type if types_.is_dictionary(kind) else kind
    if not (
        types_.is_string(content)
        or types_.is_large_string(content)
        or types_.is_string_view(content)
    ):
        raise UserError(
            f"{where}: the column {text_column!r} ({COLUMN_FLAG}) must be text, and has the "
            f"type {kind}."
        )


def _damaged(path: pathlib.Path, flag: str, error: Exception) -> UnreadableError:
    reason = str(error).split("\n")[0].rstrip(".")
    return UnreadableError(FILE, path, flag, f"is not a complete Parquet file: {reason}")


def _open(path: pathlib.Path):
    return _parquet().ParquetFile(path, pre_buffer=False)


def _pyarrow() -> types.ModuleType:
    return import_extra("pyarrow", "corpus", "Reading .parquet files")


def _parquet() -> types.ModuleType:
    return import_extra("pyarrow.parquet", "corpus", "Reading .parquet files")
