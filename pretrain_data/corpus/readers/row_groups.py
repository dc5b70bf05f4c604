"""Parts of files whose rows come in groups, such as the row groups of Parquet."""

import dataclasses
import pathlib
import types
from collections.abc import Iterator
from typing import Self

from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.extras import import_extra
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import read_records
from pretrain_data.corpus.unreadable import FILE, UnreadableError, naming_file

COLUMN_FLAG = "--text_column"


@dataclasses.dataclass(frozen=True)
class RowGroups:
    """Consecutive groups of rows, each of which is one document.

    Attributes:
        path: the file.
        first_group: index of the first group.
        group_bytes: size of the text column in each group: on disk, and uncompressed.
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

    def group_texts(self) -> Iterator[Iterator[str | None]]:
        """Yields the texts of each group; formats override it."""
        raise NotImplementedError

    def read(self) -> Iterator[Block]:
        """Yields the rows in blocks.

        Raises:
            UnreadableError: the file cannot be read, or is damaged.
        """
        done = 0

        def texts() -> Iterator[tuple[str | None, int]]:
            nonlocal done
            for group, (on_disk, _) in zip(self.group_texts(), self.group_bytes, strict=True):
                for text in group:
                    yield text, 0
                done += on_disk

        try:
            with naming_file(self.path, self.flag, None):
                yield from read_records(texts(), str(self.path), lambda: done)
        except (pyarrow(self.path).ArrowException, UnicodeDecodeError) as error:
            raise damaged(self.path, self.flag, error) from error

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool = False
    ) -> tuple[Self, Self]:
        """Splits the part after the group at `offset`, which counts uncompressed bytes."""
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


def check_column(schema, path: pathlib.Path, flag: str, text_column: str) -> None:
    """Raises UserError unless a `pyarrow.Schema` has the column, and it is of text."""
    where = f"{FILE} {path} ({flag})"
    if text_column not in schema.names:
        raise UserError(
            f"{where} has no column {text_column!r} ({COLUMN_FLAG}); its columns are: "
            f"{', '.join(schema.names)}.{nearest_name_hint(text_column, schema.names)}"
        )
    if schema.names.count(text_column) > 1:
        raise UserError(f"{where} has more than one column {text_column!r} ({COLUMN_FLAG})")
    types_ = pyarrow(path).types
    kind = schema.field(text_column).type
    content = kind.value_type if types_.is_dictionary(kind) else kind
    if not (
        types_.is_string(content)
        or types_.is_large_string(content)
        or types_.is_string_view(content)
    ):
        raise UserError(
            f"{where}: the column {text_column!r} ({COLUMN_FLAG}) must be text, and has the "
            f"type {kind}"
        )


def damaged(path: pathlib.Path, flag: str, error: Exception | str) -> UnreadableError:
    """Returns the error of a file that is not of the format of its suffix."""
    reason = str(error).split("\n")[0].rstrip(".")
    kind = path.suffix.removeprefix(".").capitalize()
    return UnreadableError(FILE, path, flag, f"is not a complete {kind} file: {reason}")


def pyarrow(path: pathlib.Path, module: str = "pyarrow") -> types.ModuleType:
    """Returns a module of pyarrow, which reads a file; raises UserError without it."""
    return import_extra(module, "corpus", f"Reading {path.suffix} files")
