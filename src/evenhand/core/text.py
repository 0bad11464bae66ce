"""How numbers and names are written, wherever people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

SIMULATED = "the simulated population"
"""The population beyond the data; which one it is, every result says beside it."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def format_percent(share: float) -> str:
    """Return a share in percent. Near 0 and near 100 % it gets more digits, so that it rounds to neither.

    >>> format_percent(0.0241), format_percent(0.00004), format_percent(0.99996), format_percent(1.0)
    ('2.4 %', '0.0040 %', '99.9960 %', '100 %')
    """
    return f"{100 * share:.{percent_digits(share)}f} %"


def percent_digits(share: float) -> int:
    """Return digits after the point of a share in percent.

    None for 0 and 100 %, else one, else up to the second digit of its distance from there.
    """
    rest = min(abs(100 * share), abs(100 - 100 * share))
    if rest < 1e-9:
        return 0
    return 1 if rest >= 1 else min(8, 1 - math.floor(math.log10(rest)))


def strip_unprintable(text: str) -> str:
    """Return text without characters that control a terminal, are not XML, or turn the direction of writing."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def split_lines(text: str) -> list[str]:
    r"""Split text at ``\n`` alone, and remove a byte order mark at its beginning.

    Unlike ``str.splitlines``, this keeps characters such as U+2028 and U+0085, which JSON does not escape, in a line.
    """
    return text.removeprefix("\ufeff").split("\n")


def suggest_name(given: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest of some names was meant, with a space behind it; nothing if none is near.

    Names that differ in upper and lower case alone are the nearest.

    >>> suggest_name("agee", ["age", "race"])
    "did you mean 'age'? "
    >>> suggest_name("male", ["Female", "Male"])
    "did you mean 'Male'? "
    """
    import difflib

    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(given.casefold(), list(by_folded), n=1)
    return f"did you mean {by_folded[close[0]]!r}? " if close else ""


def join_names(protected: Iterable[str]) -> str:
    """Return several protected attributes as one name: ``sex x race``."""
    return " x ".join(protected)


def percent_at_least(share: float) -> str:
    """Return a proved lower bound in percent, rounded down, so that what is written is proved too."""
    return _round_bound(share, upper=False)


def percent_at_most(share: float) -> str:
    """Return a proved upper bound in percent, rounded up."""
    return _round_bound(share, upper=True)


def _round_bound(share: float, *, upper: bool) -> str:
    digits = percent_digits(share)
    # The small term: what was 96.1 before it became binary stays 96.1.
    scaled = 100 * share * 10**digits
    end = math.ceil(scaled - 1e-7) if upper else math.floor(scaled + 1e-7)
    return f"{end / 10**digits:.{digits}f} %"


def format_decimal(value: float) -> str:
    """Return a difference, a ratio or a score: two digits, more where it is close to 0 or to 1.

    >>> format_decimal(0.1934), format_decimal(0.0042), format_decimal(0.99951), format_decimal(float("inf"))
    ('0.19', '0.0042', '0.99951', 'without limit')
    """
    return format_digits(value, decimal_digits(value))


def decimal_digits(value: float) -> int:
    """Return the digits after the point of a decimal: two, more where it is close to 0 or to 1."""
    if math.isinf(value) or value in (0, 1):
        return 0
    small = min(abs(value), 20 * abs(1 - value))
    return 2 if small >= 0.1 else min(8, 1 - math.floor(math.log10(min(abs(value), abs(1 - value)))))


def format_digits(value: float, digits: int) -> str:
    """Return a decimal with so many digits after the point; 0 and 1 as they are."""
    if math.isinf(value):
        return "without limit"
    return f"{value:.0f}" if value in (0, 1) else f"{value:.{digits}f}"


def format_against(value: float, threshold: float) -> str:
    """Return a decimal with enough digits to see on which side of a threshold it lies."""
    digits = 2
    while digits < 8 and (round(value, digits) < threshold) != (value < threshold):
        digits += 1
    return f"{value:.{digits}f}"


def format_significant(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count, and all digits of a large one.

    >>> format_significant(0.123456), format_significant(98.7654), format_significant(123456.7)
    ('0.1235', '98.77', '123,457')
    """
    if abs(value) >= 10**digits or (value == round(value) and abs(value) >= 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def format_level(confidence: float) -> str:
    """Return a confidence as ``95 %``."""
    return f"{100 * confidence:.6g} %"


def format_count(n: int, one: str, many: str) -> str:
    """Return a number with its noun: ``1 person``, ``9,769 people``."""
    return f"{n:,} {one if n == 1 else many}"


def list_some(words: Sequence[str], most: int = 12) -> str:
    """Return some of the words and how many more there are."""
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most:,} more" if len(words) > most else shown


def format_duration(seconds: float) -> str:
    """Return seconds as people write them: ``0.4 s``, ``41.7 s``, ``3 min 5 s``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"
