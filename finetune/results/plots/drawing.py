"""Fonts and saving of the plots.

matplotlib is imported when the first figure is drawn. The same input gives the same bytes.
Figures do not use pyplot, so there is no shared state, and no display is needed.
"""

import contextlib
import functools
import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from electra_tf.util.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TICK_LABELS = 60
MAX_LABEL_LENGTH = 24
DPI = 120
# Latin, Greek, Cyrillic, Hebrew, Arabic and others.
_DEFAULT_FONT = "DejaVu Sans"
# Fonts for other scripts on common systems; the first installed one of each script is used.
_FONTS_BY_SCRIPT = {
    "Korean": (
        "Noto Sans CJK KR",
        "Noto Sans KR",
        "NanumGothic",
        "NanumBarunGothic",
        "Apple SD Gothic Neo",
        "AppleGothic",
        "Malgun Gothic",
        "Source Han Sans KR",
        "UnDotum",
    ),
    "Japanese": (
        "Noto Sans CJK JP",
        "Noto Sans JP",
        "Hiragino Sans",
        "Yu Gothic",
        "Meiryo",
        "IPAexGothic",
        "IPAGothic",
        "Source Han Sans JP",
    ),
    "Chinese": (
        "Noto Sans CJK SC",
        "Noto Sans SC",
        "PingFang SC",
        "Microsoft YaHei",
        "WenQuanYi Zen Hei",
        "WenQuanYi Micro Hei",
        "Source Han Sans SC",
    ),
    "Thai": ("Noto Sans Thai", "Thonburi", "Leelawadee UI", "Garuda", "Loma"),
    "Devanagari": (
        "Noto Sans Devanagari",
        "Kohinoor Devanagari",
        "Nirmala UI",
        "Mangal",
        "Lohit Devanagari",
    ),
}


def printable(text: str) -> str:
    r"""Returns `text` with every character missing in the fonts replaced by `\uXXXX`."""
    glyphs = _glyphs()
    return "".join(
        c if c.isprintable() and ord(c) in glyphs else c.encode("unicode_escape").decode()
        for c in text
    )


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draws with matplotlib's defaults, ignoring the user's matplotlibrc."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.family"] = list(_font_files())
        yield


@functools.cache
def _font_files() -> dict[str, str]:
    """Returns the font files by name: the default, then one of each other script."""
    from matplotlib import font_manager

    files = {font.name: font.fname for font in font_manager.fontManager.ttflist}
    found = {_DEFAULT_FONT: font_manager.findfont(_DEFAULT_FONT)}
    for names in _FONTS_BY_SCRIPT.values():
        name = next((name for name in names if name in files), None)
        if name is not None:
            found[name] = files[name]
    return found


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset().union(*(FT2Font(file).get_charmap() for file in _font_files().values()))


def shorten(label: str) -> str:
    """Returns a label of at most `MAX_LABEL_LENGTH` characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"


def save_figure(figure: "Figure", path: str | os.PathLike) -> None:
    """Writes a figure as a PNG file, atomically."""
    buffer = io.BytesIO()
    # Without this, the file contains the version of matplotlib.
    figure.savefig(
        buffer,
        format="png",
        dpi=DPI,
        bbox_inches="tight",
        pad_inches=0.1,
        metadata={"Software": None},
    )
    write_atomically(path, buffer.getvalue())
