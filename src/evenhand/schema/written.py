"""Numbers that are written as words, such as ``$1,200.50`` and ``1.234,56 €``: how they are read and written back."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr

PARTS = re.compile(r"([+-]?)([^\d+-]*)(\d(?:.*\d)?)([^\d]*)", re.DOTALL)
"""A sign, what stands before the number, the number from its first to its last digit, and what stands behind."""

SEPARATORS = (".", ",", " ", "\u00a0", "\u202f", "'", "\u2019")
"""What may stand between thousands; the first two may stand before the decimals."""

MAX_DECIMALS = 12


class NumberFormat(BaseModel):
    """How a number is written in the data.

    A word is only read as a number if the number is written back as this very word. So a model that was trained on the
    words is given what stands in the data, and words of the same form for other values of the attribute.

    Attributes:
        before, after: what stands around the digits, blanks included, e.g. ``"$"`` and ``" €"``. A sign comes first.
        thousands: what stands between groups of three digits; empty for nothing.
        decimal: what stands before the decimals.
        decimals: how many there are, at most.
        fixed: whether there are always so many; else zeros at the end are left out.
        given: what the model gets in a data frame, as it was trained: the ``word``, or the ``number``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: StrictStr = ""
    after: StrictStr = ""
    thousands: StrictStr = ""
    decimal: Literal[".", ","] = "."
    decimals: Annotated[int, Field(ge=0, le=MAX_DECIMALS)] = 0
    fixed: bool = True
    given: Literal["word", "number"] = "word"

    def read(self, word: str) -> float:
        """Return the number that a word stands for; NaN if it is not written so."""
        found = PARTS.fullmatch(word.strip())
        if found is None:
            return math.nan
        digits = found[3].replace(self.thousands, "") if self.thousands else found[3]
        try:
            number = float(found[1] + digits.replace(self.decimal, "."))
        except ValueError:
            return math.nan
        return number if self.write(number) == word.strip() else math.nan

    def write(self, number: float) -> str:
        """Return the word for a number, rounded to the decimals."""
        digits = f"{abs(number):,.{self.decimals}f}"
        if not self.fixed and "." in digits:
            digits = digits.rstrip("0").removesuffix(".")
        whole, _, rest = digits.partition(".")
        sign = "-" if number < 0 and any(digit in "123456789" for digit in digits) else ""
        tail = self.decimal + rest if rest else ""
        return f"{sign}{self.before}{whole.replace(',', self.thousands)}{tail}{self.after}"


def guess_format(words: Sequence[str]) -> NumberFormat | None:
    """Return how numbers are written in words, if all are written alike; None if not.

    ``1,200`` alone may be 1200 or 1.2: groups of three digits throughout are taken for thousands.
    """
    parts = [PARTS.fullmatch(word) for word in words]
    if not words or any(one is None for one in parts):
        return None
    found = [one for one in parts if one is not None]
    before, after = found[0][2], found[0][4]
    used = [sign for sign in SEPARATORS if any(sign in one[3] for one in found)]
    for thousands, decimal in itertools.product([*used, ""], [".", ","]):
        if thousands == decimal or not {*used} <= {thousands, decimal}:
            continue
        most = max(len(one[3].rpartition(decimal)[2]) if decimal in one[3] else 0 for one in found)
        if most > MAX_DECIMALS:
            continue
        for fixed in (True, False):
            guess = NumberFormat(
                before=before, after=after, thousands=thousands, decimal=decimal, decimals=most, fixed=fixed
            )
            if not any(math.isnan(guess.read(word)) for word in words):
                return guess
    return None
