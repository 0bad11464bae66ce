"""Entries of individuals from the data's own words: what ``Attribute.text`` said, read back."""

from __future__ import annotations

import math
from typing import Any

from evenhand.datasets.tables import MISSING
from evenhand.errors import DataError
from evenhand.schema import Attribute


def entry(attribute: Attribute, said: Any, where: str) -> float:
    """The entry that a value in words stands for.

    Args:
        attribute: whose value it is.
        said: the value as text, or as it comes out of a table: None and NaN where nothing is written.
        where: how to call the place in messages.

    Raises:
        DataError: it is no value of the attribute.
    """
    nothing = said is None or (isinstance(said, float) and math.isnan(said))
    if attribute.values is not None:
        texts = [str(value) for value in attribute.values]
        # A text table says nothing where a value's own name is a word for "missing".
        places = [i for i, text in enumerate(texts) if (text in MISSING if nothing else text == str(said))]
        if len(places) == 1:
            return float(places[0])
        if len(places) > 1:
            raise DataError(
                f"{attribute.name!r}: {said!r} may be any of {len(places)} values that are written alike",
                where=where,
                mend="give the values of the schema names that differ",
            )
    if (nothing or said == "missing") and attribute.missing == "keep":
        return math.nan
    if attribute.values is not None:
        shown = ", ".join(texts[:12]) + (f", ... ({len(texts)} in all)" if len(texts) > 12 else "")
        raise _outside(attribute, said, f"is not one of its values: {shown}", where)
    return _number(attribute, said, where)


def _number(attribute: Attribute, said: Any, where: str) -> float:
    try:
        number = float(said)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _outside(attribute, said, "is no number", where)
    for end in (attribute.first, attribute.last):
        # Numbers are shown with six digits, so the domain's ends may come back a little outside it.
        if attribute.kind == "real" and str(said) == attribute.text(end):
            return end
    whole = attribute.kind == "integer"
    if not attribute.first <= number <= attribute.last or (whole and number != int(number)):
        ends = f"is not {'a whole number ' if whole else ''}between {attribute.first:g} and {attribute.last:g}"
        raise _outside(attribute, said, ends, where)
    return number


def _outside(attribute: Attribute, said: Any, why: str, where: str) -> DataError:
    return DataError(
        f"{attribute.name!r}: {said!r} {why}",
        where=where,
        mend="give the schema that these findings were made with: --schema FILE",
    )
