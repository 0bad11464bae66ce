"""Interpretation of table cells: canonical numbers, Booleans, strings for unknown values, and spelling variants."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.core.configuration import read_configuration

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]\d+)?", re.ASCII)
"""Pattern of strings that may be canonical spellings of numbers."""

LARGEST_INTEGER = 2**53
"""Larger integers remain strings, because 64-bit floats cannot represent all of them."""

TRUTH = {"true": "1", "false": "0", "1": "1", "0": "0", "1.0": "1", "0.0": "0"}
"""Spellings of true and false, case folded."""

TRIMMED = " \t\r\n\u00a0\u202f.()[]{}\"'\u2018\u2019\u201c\u201d"
"""Characters around a label that do not change its meaning."""


def parse_number(word: str) -> int | float | None:
    """Parse the canonical spelling of a number.

    A spelling is canonical if writing the number back gives the same string: ``2134``, ``0.5``, ``1.0`` and ``1e-05``
    are canonical; ``02134``, ``3.10``, ``+5``, ``1e3``, ``-0`` and ``TRUE`` are not.

    Args:
        word: Content of the cell.

    Returns:
        The number, or None if the string is not its canonical spelling, or is an integer beyond 2**53.
    """
    match = NUMBER.fullmatch(word)
    if match is None:
        return None
    if match[2] is None and match[3] is None:
        integer = int(word)
        return integer if str(integer) == word and abs(integer) <= LARGEST_INTEGER else None
    number = float(word)
    return number if math.isfinite(number) and repr(number) == word else None


def read_number(value: Any) -> float:
    """Parse a number in any spelling, such as ``3.10`` and ``+5``. Return NaN for other values."""
    if isinstance(value, str) and "_" in value:  # Python's own spelling of 1_000
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_unusual_number(value: Any) -> bool:
    """Check whether a value is a non-canonical spelling of a number."""
    return isinstance(value, str) and math.isfinite(read_number(value)) and parse_number(value.strip()) is None


def word_of(value: Any) -> str:
    """Format a value as text: a whole number without a decimal point, a string without surrounding blanks.

    A number and the string that is its canonical spelling have the same text.
    """
    word = str(value).strip()
    number = parse_number(word) if isinstance(value, str) else value
    return str(int(number)) if isinstance(number, float) and number.is_integer() else word


def truth_key(value: Any) -> str | None:
    """Map spellings of true and false, such as ``1.0`` and ``TRUE``, to ``"1"`` and ``"0"``; None for others."""
    return TRUTH.get(word_of(value).casefold())


def plain_key(value: Any) -> str | None:
    """Map true and yes to ``"1"``, false and no to ``"0"``; None for other strings."""
    word = folded(value)
    return "1" if word in ("yes", "y") else "0" if word in ("no", "n") else truth_key(value)


def outcome_key(value: Any) -> str:
    """Build the comparison key of an outcome: its text, or ``"1"`` and ``"0"`` for true and false."""
    return truth_key(value) or word_of(value)


def folded(value: Any) -> str:
    """Normalise a string: fold its case, and remove invisible characters and repeated blanks."""
    visible = "".join(
        letter for letter in unicodedata.normalize("NFKC", str(value)) if unicodedata.category(letter) != "Cf"
    )
    return " ".join(visible.split()).casefold()


def find_variants(values: Iterable[Any]) -> list[list[Any]]:
    """Group the strings that differ only in case or blanks, in their order of appearance.

    Leading blanks are ignored, because text tables often have them after the separator.
    """
    alike: dict[str, list[str]] = {}
    for value in values:
        if isinstance(value, str):
            alike.setdefault(folded(value), []).append(value)
    return [words for words in alike.values() if len({word.lstrip() for word in words}) > 1]


@cache
def _data() -> Mapping[str, Any]:
    return read_configuration(Path(__file__).with_name("words.yaml"), example="words.yaml", entries="unknown")


@cache
def _pattern(meaning: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _data()[meaning]))


def _means(meaning: str, word: Any) -> bool:
    return _pattern(meaning).fullmatch(folded(word).strip(TRIMMED)) is not None


def means_unknown(value: Any) -> bool:
    """Check whether a string means that a value is unknown, such as ``Prefer not to say``, ``NULL`` or ``?``.

    The strings are listed in ``words.yaml``.
    """
    return isinstance(value, str) and _means("unknown", value)


def means_no_outcome(value: Any) -> bool:
    """Check whether an outcome means "unknown". ``declined`` and ``refused`` are known outcomes."""
    return means_unknown(value) and is_favourable_word(value) is None


def unknown_codes(values: Sequence[Any]) -> list[Any]:
    """List the numbers that are common codes for unknown values, such as -1 and 999."""
    codes = frozenset(_data()["codes"])
    return [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool) and value in codes
    ]


def is_adverse_name(name: str) -> bool | None:
    """Check whether a column name means that its label 1, yes or true is adverse, such as ``defaulted``.

    A negation reverses the meaning: ``no_default`` is not adverse, and ``not_hired`` is.

    Returns:
        None if the words of the name contradict each other, as in ``passed_risk_check``.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9]+", " ", name).casefold()
    words = [word.rstrip("0123456789") or word for word in spaced.split()]
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(words)]
    adverse = any(_pattern("adverse_names").fullmatch(word) for word in [*words, *pairs])
    good = any(_pattern("favourable").fullmatch(word) for word in words if plain_key(word) is None)
    negated = any(_pattern("negations").fullmatch(word) for word in words)
    if adverse and good and not negated:
        return None
    return not negated if adverse else good and negated


def is_favourable_word(value: Any) -> bool | None:
    """Check whether a label is favourable, such as ``approved``, or not, such as ``denied``; None if unclear."""
    word = truth_key(value) or value
    favourable, unfavourable = _means("favourable", word), _means("unfavourable", word)
    return None if favourable == unfavourable else favourable
