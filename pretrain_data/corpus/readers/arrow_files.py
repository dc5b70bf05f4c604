"""Reads a text column of Arrow files, as saved by `datasets`; each row is one document.

Both formats of Arrow are read: streams, which `datasets` writes, and files with a footer.
"""

import json
from collections.abc import Iterator

from electra_tf.util.errors import UserError
from electra_tf.util.paths import AnyPath, is_remote, open_binary
from pretrain_data.corpus.readers.row_groups import RowGroups, check_column, damaged, pyarrow
from pretrain_data.corpus.unreadable import FILE, UnreadableError, naming_file

SUFFIX = ".arrow"
# Descriptions in folders of `Dataset.save_to_disk` and of `DatasetDict.save_to_disk`.
DATASET_FILE = "state.json"
SPLITS_FILE = "dataset_dict.json"
_MAGIC = b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowPart(RowGroups):
    """Consecutive record batches of an Arrow file."""

    def group_texts(self) -> Iterator[Iterator[str | None]]:
        """Yields the texts of each record batch."""
        until = self.first_group + len(self.group_bytes)
        for index, batch in enumerate(_batches(self.path)):
            if self.first_group <= index < until:
                yield iter(batch.column(self.text_column).to_pylist())


def arrow_part(path: AnyPath, flag: str, text_column: str) -> ArrowPart:
    """Returns a whole file.

    Raises:
        UserError: pyarrow is not installed, or the column is missing or not of text.
        UnreadableError: it is not a complete Arrow file.
    """
    arrow = pyarrow(path)
    sizes = []
    try:
        with naming_file(path, flag, None):
            _check_end(path, flag)
            with _source(path) as source:
                check_column(_reader(path, source).schema, path, flag, text_column)
            for batch in _batches(path):
                size = batch.column(text_column).get_total_buffer_size()
                sizes.append((size, size))
    except arrow.ArrowException as error:
        raise damaged(path, flag, error) from error
    return ArrowPart(path, 0, tuple(sizes), text_column, flag)


def is_of_saved_dataset(path: AnyPath) -> bool:
    """Whether a file is part of the dataset saved in its folder, if there is one.

    `datasets` leaves cache files in such folders. In other folders, all files are read.

    Raises:
        UserError: the description in the folder is damaged.
    """
    state = path.parent / DATASET_FILE
    if not state.is_file():
        return True
    files = _read_description(state).get("_data_files")
    if not isinstance(files, list):
        return True  # it describes something else
    return path.name in [file.get("filename") for file in files if isinstance(file, dict)]


def check_one_split(path: AnyPath, flag: str) -> None:
    """Raises UserError for a `SPLITS_FILE`: not all splits of a dataset should be read."""
    splits = _read_description(path).get("splits")
    if isinstance(splits, list) and splits:
        raise UserError(
            f"{flag}: {path.parent} is a dataset of the splits {', '.join(map(str, splits))}; "
            f"name those to read, such as {path.parent / str(splits[0])}"
        )


def _read_description(path: AnyPath) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _check_end(path: AnyPath, flag: str) -> None:
    """Raises UnreadableError if a stream is truncated, which pyarrow may take for its end."""
    with open_binary(path) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            return
        file.seek(0, 2)
        file.seek(max(0, file.tell() - len(_END_OF_STREAM)))
        if file.read() != _END_OF_STREAM:
            raise UnreadableError(FILE, path, flag, "is not a complete Arrow file: no end")


def _batches(path: AnyPath) -> Iterator:
    """Yields the record batches of a file, mapped into memory."""
    with _source(path) as source:
        reader = _reader(path, source)
        if hasattr(reader, "num_record_batches"):
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
        else:
            yield from reader


def _source(path: AnyPath):
    """Returns a local file mapped into memory, or a remote one as a stream."""
    arrow = pyarrow(path)
    if is_remote(path):
        return arrow.PythonFile(open_binary(path), mode="r")
    return arrow.memory_map(str(path))


def _reader(path: AnyPath, source):
    ipc = pyarrow(path, "pyarrow.ipc")
    is_file = source.read(len(_MAGIC)) == _MAGIC
    source.seek(0)
    return ipc.open_file(source) if is_file else ipc.open_stream(source)
