"""Widths of texts: advance widths of Helvetica, Arial and Liberation Sans."""

from __future__ import annotations

import html
import re
from functools import cache

_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 "
    "584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 "
    "333 611 556 778 556 556 500 389 280 389 584"
)
_ADDED = {"\N{MINUS SIGN}": 584, "\N{HORIZONTAL ELLIPSIS}": 1000, "\N{NARROW NO-BREAK SPACE}": 200}
"""Widths of the non-ASCII characters that charts add to texts."""

_WIDEST = 1015
"""Width of every other character, in thousandths of the font size; an overestimate."""

_TEXT = re.compile(r"<text([^>]*)>([^<]+)</text>")


@cache
def _advances(bold: bool) -> dict[str, int]:
    widths = map(int, (_BOLD if bold else _REGULAR).split())
    return dict(zip(map(chr, range(32, 127)), widths, strict=True)) | _ADDED


def text_width(text: str, size: float = 12, *, bold: bool = False) -> float:
    """Compute the width of a text in pixels.

    >>> round(text_width("undecided"), 1), round(text_width("undecided", bold=True), 1)
    (55.4, 60.0)
    """
    advances = _advances(bold)
    return size / 1000 * sum(advances.get(character, _WIDEST) for character in text)


def wrap_text(text: str, room: float, *, lines: int = 2) -> list[str]:
    """Wrap a text into lines of at most ``room`` pixels, between words if possible. The remainder is cut.

    >>> wrap_text("provably the same decision", 90)
    ['provably the', 'same decision']
    """
    wrapped = [""]
    for word in text.split():
        longer = f"{wrapped[-1]} {word}".strip()
        if text_width(longer) <= room:
            wrapped[-1] = longer
            continue
        if wrapped[-1]:
            wrapped.append("")
        for character in word:
            if wrapped[-1] and text_width(wrapped[-1] + character) > room:
                wrapped.append("")
            wrapped[-1] += character
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], cut_text(" ".join(wrapped[lines - 1 :]), room)]
    return wrapped


def cut_text(text: str, room: float) -> str:
    """Return a text, or the part of it that fits in ``room`` pixels with an ellipsis."""
    if text_width(text) <= room:
        return text
    length = next(k for k in range(len(text), -1, -1) if text_width(text[:k]) + 12 <= room or not k)
    return text[:length].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def fix_widths(drawing: str) -> str:
    """Fix the widths of texts in an SVG, so that a wider font on the reader's machine does not change the layout.

    Texts with characters whose width is not known stay as they are.
    """

    def fixed(match: re.Match[str]) -> str:
        looks, text = match[1], html.unescape(match[2])
        size = re.search(r'font-size="([\d.]+)px"', looks)
        bold = 'font-weight="bold"' in looks
        if size is None or not set(text) <= _advances(bold).keys():
            return match[0]
        width = text_width(text, float(size[1]), bold=bold)
        return f'<text{looks} textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">{match[2]}</text>'

    return _TEXT.sub(fixed, drawing)
