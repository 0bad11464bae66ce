"""Which group everybody belongs to: one code per person and protected attribute, and the groups' names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.text import list_some, suggest_name
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.table import CodedColumn, is_missing

MOST_NUMBERS = 10
"""An integer attribute with more values than this in the data is cut into ranges."""

RANGES = 5
"""Ranges that such an attribute is cut into, at most."""

MISSING = "missing"


@dataclass(frozen=True)
class Membership:
    """The groups by one protected attribute.

    Attributes:
        name: the attribute.
        codes: the group of each person, shape (n,), a position in ``labels``.
        labels: the groups in words, in the attribute's order; a group may be empty.
        unknown: whether who is in the last of them, of missing values, is of unknown value, and no group.
    """

    name: str
    codes: Integers
    labels: tuple[str, ...]
    unknown: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """The groups of those whose value is known."""
        return self.labels[:-1] if self.unknown else self.labels


def breakdown_positions(attributes: int) -> list[list[int]]:
    """List the positions of each attribute by itself and, of several, of all together."""
    alone = [[i] for i in range(attributes)]
    return alone if attributes < 2 else [*alone, list(range(attributes))]


def group_by_attribute(attribute: Attribute, entries: Floats, counts: Integers | None = None) -> Membership:
    """Return the groups by the entries (n,) of an attribute: its values, or readable ranges of an integer with many.

    Args:
        attribute: what the entries are of.
        entries: of each person, shape (n,).
        counts: how many people each entry stands for, shape (n,); None: one.

    Raises:
        OptionError: the attribute is real, and people with exactly the same number are not a group.
    """
    if attribute.kind == "real":
        raise OptionError(
            f"{attribute.name!r} is a real number, and groups need finitely many values",
            hint="make it ordinal with `edges: [...]` in the schema, or integer",
        )
    missing = np.isnan(entries)
    unknown = attribute.unknown is not None and bool(missing.any())
    if attribute.kind == "integer":
        return replace(_group_by_numbers(attribute.name, entries, counts), unknown=unknown)
    labels = tuple(attribute.text(entry) for entry in attribute.domain())
    codes = np.where(missing, len(labels), entries).astype(np.int64)
    return Membership(attribute.name, codes, (*labels, MISSING) if missing.any() else labels, unknown)


def group_by_values(name: str, values: ArrayLike) -> Membership:
    """Group rows by values of shape (n,): integers as in an integer attribute, other values by equality.

    Raises:
        DataError: The values are numbers with fractions.
    """
    import narwhals as nw
    import pandas as pd

    series = pd.Series(values).infer_objects()
    column = np.asarray(series)
    if column.dtype.kind in "iuf":
        numbers = column.astype(np.float64)
        known = numbers[~np.isnan(numbers)]
        if not (np.isfinite(known) & (known == np.floor(known))).all():
            raise DataError(
                f"protected attribute {name!r} has numbers with a fraction, and groups need finitely many values",
                hint="cut it into ranges first",
            )
        return _group_by_numbers(name, numbers)
    coded = CodedColumn.read(nw.from_native(series, series_only=True))
    present = [i for i, value in enumerate(coded.values) if not is_missing(value)]
    order = sorted(present, key=lambda i: _sort_key(coded.values[i]))
    rank = np.full(len(coded.values), len(order))
    rank[order] = np.arange(len(order))
    labels = tuple(str(coded.values[i]) for i in order)
    return Membership(name, rank[coded.codes], (*labels, MISSING) if len(order) < len(rank) else labels)


def find_references(given: Sequence[str], memberships: Sequence[Membership]) -> dict[str, str]:
    """Return attribute -> the group of it that others are compared with, from texts such as ``sex=Male``.

    Raises:
        OptionError: a text is not of that form, or there is no such attribute or group.
    """
    found: dict[str, str] = {}
    by_name = {membership.name: membership for membership in memberships}
    for text in given:
        name, equals, label = text.partition("=")
        if not equals or name not in by_name:
            hint = f"the attributes are: {', '.join(by_name)}" if equals else "such as sex=Male"
            hint = (suggest_name(name, by_name) if equals else "") + hint
            raise OptionError(f"expected a reference as ATTRIBUTE=GROUP, got {text!r}", location="reference", hint=hint)
        membership = by_name[name]
        present = [membership.labels[code] for code in np.unique(membership.codes).tolist()]
        if label not in present:
            hint = f"{suggest_name(label, present)}the groups by {name} are: {list_some(present)}"
            raise OptionError(f"there is no group {label!r} by {name} to compare with", location="reference", hint=hint)
        if found.setdefault(name, label) != label:
            raise OptionError(f"expected one reference by {name}, got {found[name]!r} and {label!r}")
    return found


def _group_by_numbers(name: str, numbers: Floats, counts: Integers | None = None) -> Membership:
    """Return whole numbers (n,), NaN where missing: each for itself, or ranges with about as many people in each."""
    missing = np.isnan(numbers)
    some_missing = bool(missing.any())
    whole = (numbers[~missing] if some_missing else numbers).astype(np.int64)
    values, sizes = _distinct_numbers(whole, None if counts is None else counts[~missing])
    if len(values) <= MOST_NUMBERS:
        ends, labels = values, [str(value) for value in values.tolist()]
    else:
        ends = _range_ends(values, sizes)
        starts = [int(values[0]), *(ends[:-1] + 1).tolist()]
        labels = [
            str(start) if start == end else f"{start} to {end}"
            for start, end in zip(starts, ends.tolist(), strict=True)
        ]
    if not some_missing:
        return Membership(name, np.searchsorted(ends, whole), tuple(labels))
    codes = np.full(len(numbers), len(labels), dtype=np.int64)
    codes[~missing] = np.searchsorted(ends, whole)
    return Membership(name, codes, (*labels, MISSING))


def _range_ends(values: Integers, sizes: Integers) -> Integers:
    """Return the last number of each range: at the boundary between values that comes nearest to each quantile."""
    below = np.concatenate([[0.0], np.cumsum(sizes) / sizes.sum()])  # share of people before each value
    nearest = (int(np.argmin(np.abs(below - i / RANGES))) for i in range(1, RANGES))
    inner = {int(values[j - 1]) for j in nearest if 0 < j < len(values)}
    return np.array([*sorted(inner), int(values[-1])], dtype=np.int64)


def _distinct_numbers(numbers: Integers, counts: Integers | None = None) -> tuple[Integers, Integers]:
    if len(numbers) == 0:
        return numbers, numbers
    if counts is not None:
        values, code = np.unique(numbers, return_inverse=True)
        return values, np.bincount(code, weights=counts, minlength=len(values)).astype(np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    if highest - lowest > 4 * len(numbers):  # too sparse to count by position
        return np.unique(numbers, return_counts=True)
    sizes = np.bincount(numbers - lowest)
    present = np.flatnonzero(sizes)
    return present + lowest, sizes[present]


def _sort_key(value: Any) -> tuple[str, Any]:
    return ("", value) if isinstance(value, int | float) else (type(value).__name__, str(value))
