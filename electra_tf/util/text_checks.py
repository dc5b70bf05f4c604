"""Recognizes what is not UTF-8: files, despite their names, and characters of JSON."""

import codecs
import re

# Halves of UTF-16 pairs: JSON can escape one alone, UTF-8 cannot represent it.
LONE_SURROGATES = re.compile("[\ud800-\udfff]")
# Bytes at the start of a file that are enough to recognize it.
HEAD_BYTES = 4096
# The byte order mark of UTF-32 begins with that of UTF-16.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# Escape sequences that switch to two bytes per character, all of which are ASCII.
_ESCAPES = {
    b"\x1b$B": "ISO-2022-JP",
    b"\x1b$@": "ISO-2022-JP",
    b"\x1b$)C": "ISO-2022-KR",
}
# First bytes of files that are often named like text, and what to do with them.
_OTHER_FORMATS = {
    b"\x1f\x8b": "is compressed with gzip (.gz belongs at the end of its name)",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd (unzstd decompresses it)",
    b"\xfd7zXZ\0": "is compressed with xz (unxz decompresses it)",
    b"BZh": "is compressed with bzip2 (bunzip2 decompresses it)",
    b"PK\x03\x04": "is a ZIP archive, as are .xlsx and .docx: extract or export its text",
    b"%PDF-": "is a PDF (pdftotext converts it)",
    b"PAR1": "is a Parquet file (.parquet belongs at the end of its name)",
}
# Apart from ASCII, hardly any byte sequence of text in another encoding is valid UTF-8.
_MAX_INVALID_SHARE = 0.1
_FEW_INVALID = 16
# Old Macs and some spreadsheets write such files.
ONLY_CARRIAGE_RETURNS = (
    "its lines end in carriage returns (CR), not in line feeds (LF, CR LF): "
    r"tr '\r' '\n' converts it"
)
# Lines are no longer than that on average; a paragraph may have a stray carriage return.
_MEAN_LINE_BYTES = 1024
# UTF-8 text has hardly any. In UTF-16, every second byte is NUL in Latin letters, and another
# control character in Arabic, Cyrillic and Thai ones: without this, both would pass for ASCII.
_CONTROL_CHARACTERS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_MAX_CONTROL_SHARE = 0.1


def valid_text(text: str) -> str:
    """Replaces lone surrogates, valid in JSON but not in UTF-8, by U+FFFD."""
    return LONE_SURROGATES.sub("\ufffd", text)


def not_text(head: bytes) -> str | None:
    """Describes a file that is not UTF-8 text, and how to convert it; None for text.

    Does not look for invalid bytes within text.

    Args:
        head: the first `HEAD_BYTES` bytes of the file, or more.
    """
    head = head[:HEAD_BYTES]
    for mark, reason in _OTHER_FORMATS.items():
        # Letters may also be the first word of a text.
        if head.startswith(mark) and (not mark.isalnum() or b"\0" in head):
            return reason
    for mark, encoding in _ENCODINGS.items():
        if head.startswith(mark):
            return f"is {encoding} (iconv -f {encoding} -t UTF-8 converts it)"
    for escape, encoding in _ESCAPES.items():
        if escape in head:
            return f"is {encoding} (iconv -f {encoding} -t UTF-8 converts it)"
    num_controls = len(head) - len(head.translate(None, _CONTROL_CHARACTERS))
    if num_controls > _MAX_CONTROL_SHARE * len(head):
        return (
            "is not UTF-8 text: many of its bytes are NUL or other control characters. If it "
            "is UTF-16, iconv -f UTF-16LE -t UTF-8 converts it"
        )
    return None


def other_encoding(head: bytes) -> str | None:
    """Describes a file in an encoding other than UTF-8, and how to convert it; else None.

    A few invalid bytes, or a small share, as in mostly ASCII text, are damage to repair.

    Args:
        head: the first `HEAD_BYTES` bytes of the file, or more.
    """
    head = head[:HEAD_BYTES]
    text = head.decode("utf-8", errors="replace")
    num_invalid = text.count("\ufffd") - head.count("\ufffd".encode())
    if num_invalid < _FEW_INVALID or num_invalid <= _MAX_INVALID_SHARE * len(text):
        return None
    return (
        f"is not UTF-8 text: its start has {num_invalid:,} invalid byte sequences. Convert it "
        "from the encoding that it is in, such as CP949 (Korean), SHIFT_JIS, GB18030, CP1251 "
        "(Cyrillic) or CP1256 (Arabic): iconv -f CP949 -t UTF-8"
    )


def is_without_line_feeds(head: bytes) -> bool:
    """Whether lines end in carriage returns alone.

    Args:
        head: the first `HEAD_BYTES` bytes of the file, or more.
    """
    head = head[:HEAD_BYTES]
    return b"\n" not in head and head.count(b"\r") >= max(2, len(head) / _MEAN_LINE_BYTES)
