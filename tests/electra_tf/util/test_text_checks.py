"""What files are that are not UTF-8 text, told by their first bytes."""

import gzip

import pytest

from electra_tf.util.text_checks import HEAD_BYTES, not_text, other_encoding


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (gzip.compress(b"text", mtime=0), "gzip"),
        (b"PK\x03\x04" + bytes(9), "ZIP"),
        (b"%PDF-1.7\n\0", "PDF"),
        (b"PAR1" + bytes(9), "Parquet"),
        ("text".encode("utf-16"), "UTF-16"),
        ("text of many words".encode("utf-16-le"), "many of its bytes are NUL"),
        # Without a byte that is not ASCII.
        (
            "\u0e01\u0e34\u0e19 \u0e02\u0e49\u0e32\u0e27".encode("utf-16-le"),
            "control characters",
        ),
        ("\u0645\u0635\u0631 \u0648\u0627\u0644".encode("utf-16-be"), "control characters"),
        ("Subject: \u6771\u4eac".encode("iso2022_jp"), "is ISO-2022-JP"),
        ("\ud55c\uad6d\uc5b4".encode("iso2022_kr"), "is ISO-2022-KR"),
        ("\u043c\u0438\u0440 \u0438 \u043c\u044b".encode("utf-16-le"), "control characters"),
    ],
)
def test_other_content_is_named(head, reason):
    assert reason in not_text(head)


def test_text_is_none_of_them():
    assert not_text(b"PAR1 is the first word of a text") is None
    assert not_text(b"") is None
    # What comes after the first bytes is not looked at.
    assert not_text(b"a" * HEAD_BYTES + bytes(HEAD_BYTES)) is None


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("\uc624\ub298\uc740 \ub0a0\uc528\uac00 \uc88b\ub2e4", "cp949"),
        ("\u5929\u6c17\u304c\u826f\u3044", "shift_jis"),
        ("\u4eca\u5929\u5929\u6c14\u5f88\u597d", "gb18030"),
        ("\u0645\u0635\u0631 \u0648\u0627\u0644\u0633\u0648\u062f\u0627\u0646", "cp1256"),
        ("\u043c\u0438\u0440 \u0438 \u0442\u0440\u0443\u0434", "cp1251"),
    ],
)
def test_text_of_another_encoding_is_told_from_damage(text, encoding):
    text = "\n".join([text] * 1000)
    assert "invalid byte sequences" in other_encoding(text.encode(encoding))
    assert other_encoding(text.encode()) is None
    assert other_encoding(text.encode()[:HEAD_BYTES] + b"\xff") is None


def test_some_invalid_bytes_are_no_other_encoding():
    german = "Die Kinder \u00fcben heute f\u00fcr das gro\u00dfe Fest im Sommer.\n" * 100
    assert other_encoding(german.encode("latin-1")) is None
    assert other_encoding(b"sea\xfe\xfe\n") is None
    assert other_encoding("\ufffd\n".encode() * 1000) is None
