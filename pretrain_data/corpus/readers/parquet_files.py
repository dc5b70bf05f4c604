"""Reads a text column of Parquet files, one row group at a time; each row is one document."""

from collections.abc import Iterator

from electra_tf.util.paths import AnyPath, is_remote, open_binary
from pretrain_data.corpus.readers.row_groups import RowGroups, check_column, damaged, pyarrow
from pretrain_data.corpus.unreadable import naming_file

_ROWS_AT_ONCE = 256


class ParquetPart(RowGroups):
    """Consecutive row groups of a Parquet file."""

    def group_texts(self) -> Iterator[Iterator[str | None]]:
        """Yields the texts of each row group."""
        with _open(self.path) as file:
            for group in range(self.first_group, self.first_group + len(self.group_bytes)):
                batches = file.iter_batches(
                    _ROWS_AT_ONCE, [group], [self.text_column], use_threads=False
                )
                yield (text for batch in batches for text in batch.column(0).to_pylist())


def parquet_part(path: AnyPath, flag: str, text_column: str) -> ParquetPart:
    """Returns a whole file.

    Raises:
        UserError: pyarrow is not installed, or the column is missing or not of text.
        UnreadableError: it is not a Parquet file.
    """
    arrow = pyarrow(path)
    try:
        with naming_file(path, flag, None), _open(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            check_column(schema, path, flag, text_column)
            column = [
                metadata.schema.column(i).path for i in range(metadata.num_columns)
            ].index(text_column)
            chunks = [
                metadata.row_group(group).column(column) for group in range(file.num_row_groups)
            ]
    except arrow.ArrowException as error:
        raise damaged(path, flag, error) from error
    sizes = tuple(
        (chunk.total_compressed_size, chunk.total_uncompressed_size) for chunk in chunks
    )
    return ParquetPart(path, 0, sizes, text_column, flag)


def _open(path: AnyPath):
    source = open_binary(path) if is_remote(path) else path
    return pyarrow(path, "pyarrow.parquet").ParquetFile(source, pre_buffer=False)
