"""Checks that the content of a corpus file is the text that its name says."""

from typing import BinaryIO

from electra_tf.util.content import HEAD_BYTES, not_text
from electra_tf.util.paths import AnyPath
from pretrain_data.corpus.unreadable import FILE, UnreadableError


def check_utf8(text: BinaryIO, path: AnyPath, flag: str) -> None:
    """Raises UnreadableError if the start of a file is not UTF-8 text.

    Single invalid bytes are no error: they are repaired and counted where text is decoded.

    Args:
        text: uncompressed content from its start, of which the first bytes are read.
        path: name of the file, for messages.
        flag: flag to name in errors.
    """
    if reason := not_text(text.read(HEAD_BYTES)):
        raise UnreadableError(FILE, path, flag, reason)
