"""Checks that the content of a corpus file is text, as its name says."""

from typing import BinaryIO

from electra_tf.util.paths import AnyPath
from electra_tf.util.text_checks import (
    HEAD_BYTES,
    ONLY_CARRIAGE_RETURNS,
    is_without_line_feeds,
    not_text,
    other_encoding,
)
from pretrain_data.corpus.unreadable import FILE, UnreadableError


def check_utf8(text: BinaryIO, path: AnyPath, flag: str) -> None:
    """Raises UnreadableError if the start of a file is not UTF-8 text, or has no line feeds.

    Lines that end in carriage returns alone would all be one line. Single invalid bytes are not
    an error: they are repaired and counted when text is decoded.

    Args:
        text: uncompressed content from its start, of which the first bytes are read.
        path: name of the file, for messages.
        flag: flag to name in errors.
    """
    head = text.read(HEAD_BYTES)
    if reason := not_text(head) or other_encoding(head):
        raise UnreadableError(FILE, path, flag, reason)
    if is_without_line_feeds(head):
        reason = f"cannot be read: {ONLY_CARRIAGE_RETURNS}"
        raise UnreadableError(FILE, path, flag, reason)
