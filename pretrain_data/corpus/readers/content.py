"""Recognizes files that are not the UTF-8 text that their names say."""

import codecs
from typing import BinaryIO

from electra_tf.util.paths import AnyPath
from pretrain_data.corpus.unreadable import FILE, UnreadableError

_HEAD_BYTES = 4096
# The byte order mark of UTF-32 begins with that of UTF-16.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# First bytes of files that are often named like text, and what to do with them.
_OTHER_FORMATS = {
    b"\x1f\x8b": "is compressed with gzip (.gz belongs at the end of its name)",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd (.zst belongs at the end of its name)",
    b"\xfd7zXZ\0": "is compressed with xz (unxz decompresses it)",
    b"BZh": "is compressed with bzip2 (bunzip2 decompresses it)",
    b"PK\x03\x04": "is a ZIP archive (unzip extracts it)",
    b"%PDF-": "is a PDF (pdftotext converts it)",
    b"PAR1": "is a Parquet file (.parquet belongs at the end of its name)",
}
# Text has none, and UTF-16 of an alphabet one in every second byte.
_MAX_NUL_SHARE = 0.25


def check_utf8(text: BinaryIO, path: AnyPath, flag: str) -> None:
    """Raises UnreadableError if the start of a file is not UTF-8 text.

    Single invalid bytes are no error: they are repaired and counted where text is decoded.

    Args:
        text: uncompressed content from its start, of which the first bytes are read.
        path: name of the file, for messages.
        flag: flag to name in errors.
    """
    head = text.read(_HEAD_BYTES)
    reason = next((why for mark, why in _OTHER_FORMATS.items() if _begins(head, mark)), None)
    for mark, encoding in _ENCODINGS.items():
        if reason is None and head.startswith(mark):
            reason = f"is {encoding} (iconv -f {encoding} -t UTF-8 converts it)"
    if reason is None and head.count(0) > _MAX_NUL_SHARE * len(head):
        reason = (
            "is no text in UTF-8: many of its bytes are NUL. If it is UTF-16, "
            "iconv -f UTF-16LE -t UTF-8 converts it"
        )
    if reason is not None:
        raise UnreadableError(FILE, path, flag, reason)


def _begins(head: bytes, mark: bytes) -> bool:
    """Whether a file has the first bytes of a format, and they are no word of a text."""
    is_text = mark.isalnum() and b"\0" not in head
    return head.startswith(mark) and not is_text
