"""Formatting of numbers and names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

SIMULATED = "the simulated population"
"""Name of the population that is not in the data. Each result describes how it was simulated."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def format_percent(share: float) -> str:
    """Format a share in percent, with more digits near 0 and 100 %, so that it is not rounded to either.

    >>> format_percent(0.0241), format_percent(0.00004), format_percent(0.99996), format_percent(1.0)
    ('2.4 %', '0.0040 %', '99.9960 %', '100 %')
    """
    return f"{100 * share:.{percent_digits(share)}f} %"


def percent_digits(share: float) -> int:
    """Return the number of decimals of a share in percent.

    The number is 0 for 0 and 100 %, and 1 for most other values. Within 1 % of 0 or 100 %, the distance is shown with
    two significant digits.
    """
    distance = min(abs(100 * share), abs(100 - 100 * share))
    if distance < 1e-9:
        return 0
    return 1 if distance >= 1 else min(8, 1 - math.floor(math.log10(distance)))


def strip_unprintable(text: str) -> str:
    """Replace characters that control terminals, are invalid in XML, or change the writing direction."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def split_lines(text: str) -> list[str]:
    r"""Split text at ``\n`` only, and remove a byte order mark at its beginning.

    Unlike ``str.splitlines``, this function does not split at U+2028 and U+0085, which JSON does not escape.
    """
    return text.removeprefix("\ufeff").split("\n")


def suggest_name(name: str, candidates: Iterable[str]) -> str:
    """Suggest the most similar name, as a question with a trailing space. Empty if no name is similar.

    Case is ignored.

    >>> suggest_name("agee", ["age", "race"])
    "did you mean 'age'? "
    >>> suggest_name("male", ["Female", "Male"])
    "did you mean 'Male'? "
    """
    import difflib

    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=1)
    return f"did you mean {by_folded[close[0]]!r}? " if close else ""


def find_repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in order."""
    return [name for name, count in Counter(names).items() if count > 1]


def join_names(protected: Iterable[str]) -> str:
    """Join the names of several protected attributes: ``sex x race``."""
    return " x ".join(protected)


def percent_at_least(share: float) -> str:
    """Format a proved lower bound in percent, rounded down."""
    return _round_bound(share, upper=False)


def percent_at_most(share: float) -> str:
    """Format a proved upper bound in percent, rounded up."""
    return _round_bound(share, upper=True)


def _round_bound(share: float, *, upper: bool) -> str:
    digits = percent_digits(share)
    # The small term keeps decimals such as 96.1, which have no exact binary representation.
    scaled = 100 * share * 10**digits
    end = math.ceil(scaled - 1e-7) if upper else math.floor(scaled + 1e-7)
    return f"{end / 10**digits:.{digits}f} %"


def format_decimal(value: float) -> str:
    """Format a difference, a ratio or a score with two decimals, or with more near 0 and 1.

    >>> format_decimal(0.1934), format_decimal(0.0042), format_decimal(0.99951), format_decimal(float("inf"))
    ('0.19', '0.0042', '0.99951', 'without limit')
    """
    return format_digits(value, decimal_digits(value))


def decimal_digits(value: float) -> int:
    """Return the number of decimals of a value: two, or more near 0 and 1."""
    if math.isinf(value) or value in (0, 1):
        return 0
    distance = min(abs(value), 20 * abs(1 - value))
    return 2 if distance >= 0.1 else min(8, 1 - math.floor(math.log10(min(abs(value), abs(1 - value)))))


def format_digits(value: float, digits: int) -> str:
    """Format a value with a number of decimals. 0 and 1 are formatted without decimals."""
    if math.isinf(value):
        return "without limit"
    return f"{value:.0f}" if value in (0, 1) else f"{value:.{digits}f}"


def format_against(value: float, threshold: float) -> str:
    """Format a value with enough decimals to distinguish it from a threshold."""
    digits = 2
    while digits < 8 and (round(value, digits) < threshold) != (value < threshold):
        digits += 1
    return f"{value:.{digits}f}"


def format_significant(value: float, digits: int = 4) -> str:
    """Format a number with a number of significant digits. Integer parts are not rounded.

    >>> format_significant(0.123456), format_significant(98.7654), format_significant(123456.7)
    ('0.1235', '98.77', '123,457')
    """
    if abs(value) >= 10**digits or (value == round(value) and abs(value) >= 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def format_level(confidence: float) -> str:
    """Format a confidence level, such as ``95 %``."""
    return f"{100 * confidence:.6g} %"


def format_count(n: int, singular: str, plural: str) -> str:
    """Format a count with its noun, such as ``1 person`` or ``9,769 people``."""
    return f"{n:,} {singular if n == 1 else plural}"


def list_some(words: Sequence[str], limit: int = 12) -> str:
    """List the first items and the number of remaining items."""
    listed = ", ".join(words[:limit])
    return f"{listed} and {len(words) - limit:,} more" if len(words) > limit else listed


def format_duration(seconds: float) -> str:
    """Format a duration, such as ``0.4 s``, ``41.7 s`` or ``3 min 5 s``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes:,} min {remainder} s"


def summarize_error(error: BaseException, limit: int = 300) -> str:
    """Return the type of an exception and the first line of its message.

    >>> summarize_error(ValueError("no column\\nsee below"))
    'ValueError: no column'
    """
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    return f"{type(error).__name__}: {text[:limit]}" if text else type(error).__name__
