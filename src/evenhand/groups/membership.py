"""Groups of people, as one code per person and protected attribute, with the names of the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from evenhand.core.text import list_some, suggest_name
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People, PeopleWeights
from evenhand.schema.table import CodedColumn, is_missing, is_number, read_number, sort_key

MOST_NUMBERS = 10
"""Maximum number of values of an integer attribute that form single groups. Beyond it, ranges are used."""

RANGES = 5
"""Maximum number of ranges."""

LARGEST = 2.0**53
"""Maximum absolute value of integers that are exact as floats."""

MISSING = "missing"

DENSE = 1 << 22
"""Maximum number of possible combinations that are numbered with a lookup array. Above it, combinations are sorted,
unless the array is at most four times as long as the data."""


@dataclass(frozen=True)
class Membership:
    """Groups by one protected attribute.

    Attributes:
        name: Name of the attribute.
        codes: Group of each person as a position in ``labels``, shape (n,).
        labels: Names of the groups in the order of the attribute. Groups may be empty.
        unknown: Whether the last label stands for unknown values, which do not form a group.
    """

    name: str
    codes: Integers
    labels: tuple[str, ...]
    unknown: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """Names of the groups without unknown values."""
        return self.labels[:-1] if self.unknown else self.labels


class DecidedPeople(NamedTuple):
    """Decisions about people, with the available data about each person; arrays have shape (n,).

    Attributes:
        memberships: Groups of the people by each protected attribute.
        decided: Whether the decision is the favourable label, the position of the label, or the numeric decision.
        truth: True label (1 favourable, 0 unfavourable, -1 unknown; or its position) or true value (NaN if unknown).
            None without true labels or values.
        scores: Scores of the favourable label; None without scores.
        weights: Sample weights; None without weights.
        counts: Number of people that each entry represents. None means one.
    """

    memberships: Sequence[Membership]
    decided: Booleans | Integers | Floats
    truth: Integers | Floats | None = None
    scores: Floats | None = None
    weights: PeopleWeights | None = None
    counts: Integers | None = None

    @property
    def sample_weight(self) -> Floats | None:
        """Sample weight of each person, shape (n,); None without weights."""
        return None if self.weights is None else self.weights.values

    @property
    def size(self) -> int:
        """Number of people."""
        return len(self.decided) if self.counts is None else int(self.counts.sum())


def find_labelled(truth: Integers | Floats) -> Booleans:
    """Return a mask of the people whose true label or value is known (see ``DecidedPeople``), shape (n,)."""
    return np.asarray(~np.isnan(truth) if truth.dtype.kind == "f" else truth >= 0)


@dataclass(frozen=True)
class Partition:
    """Groups by one attribute or several attributes jointly.

    Attributes:
        by: Names of the attributes; none if all people form one group.
        codes: Group of each person as a position in ``values``, -1 if one of the values is unknown, shape (n,).
        values: Values of each group by attribute. Only combinations that occur are groups.
    """

    by: tuple[str, ...]
    codes: Integers
    values: list[dict[str, str]]

    @property
    def labels(self) -> list[str]:
        """Names of the groups."""
        return [", ".join(values.values()) for values in self.values]

    def find_reference(self, references: dict[str, str]) -> int | None:
        """Return the position of the group whose values are all references; None if there is none."""
        return next((i for i, values in enumerate(self.values) if values.items() <= references.items()), None)


def list_partitions(memberships: Sequence[Membership], people: int) -> Iterator[Partition]:
    """Yield all people as one group, the groups by each attribute and, if there are several, by all of them jointly."""
    yield Partition((), np.zeros(people, dtype=np.int64), [{}])
    for parts in [*([part] for part in memberships), *([memberships] if len(memberships) > 1 else [])]:
        names = tuple(part.name for part in parts)
        codes = np.full(people, -1)
        known = np.logical_and.reduce([part.codes < len(part.known) for part in parts])
        codes[known], keys = number_combinations([(part.codes[known], len(part.labels)) for part in parts])
        labels = [[part.labels[code] for part, code in zip(parts, key, strict=True)] for key in keys.tolist()]
        yield Partition(names, codes, [dict(zip(names, row, strict=True)) for row in labels])


def number_combinations(columns: Sequence[tuple[Integers, int]]) -> tuple[Integers, Integers]:
    """Number the combinations of several codes that occur, in lexicographic order.

    Args:
        columns: Codes of shape (n,), and the number of possible codes, of each column.

    Returns:
        Combination of each row, shape (n,), and codes of each combination, shape (combinations, columns).
    """
    rows = len(columns[0][0])
    combined = np.zeros(rows, dtype=np.int64)
    keys = np.empty((1, 0), dtype=np.int64)
    for codes, size in columns:
        combined = combined * size + codes
        places = len(keys) * size
        if places <= max(DENSE, 4 * rows):
            occurs = np.bincount(combined, minlength=places) > 0
            present = np.flatnonzero(occurs)
            if len(present) < places:
                combined = (np.cumsum(occurs) - 1)[combined]
        else:
            present, combined = np.unique(combined, return_inverse=True)
        keys = np.column_stack([keys[present // size], present % size])
    return combined, keys


def group_people(people: People, names: Sequence[str]) -> tuple[Membership, ...]:
    """Compute the groups of people by each of the given attributes.

    Raises:
        OptionError: An attribute is a real number.
    """
    schema = people.schema
    return tuple(
        group_by_attribute(schema[name], people.individuals[:, schema.position(name)], people.counts) for name in names
    )


def group_by_attribute(attribute: Attribute, entries: Floats, counts: Integers | None = None) -> Membership:
    """Group people by the encoded values of an attribute, or by ranges of an integer with many values.

    Raises:
        OptionError: The attribute is a real number.
    """
    if attribute.kind == "real":
        raise OptionError(
            f"{attribute.name!r} is a real number, but groups require finitely many values",
            hint="make it ordinal with `edges: [...]` in the schema, or an integer",
        )
    missing = np.isnan(entries)
    unknown = attribute.unknown is not None and bool(missing.any())
    if attribute.kind == "integer":
        return replace(_group_by_numbers(attribute.name, entries, counts), unknown=unknown)
    labels = tuple(attribute.text(entry) for entry in attribute.domain())
    codes = np.where(missing, len(labels), entries).astype(np.int64)
    return Membership(attribute.name, codes, (*labels, MISSING) if missing.any() else labels, unknown)


def group_by_values(column: CodedColumn) -> Membership:
    """Group rows by the values of a column; numbers are grouped like an integer attribute, and missing values form one
    group.

    Raises:
        DataError: A number has a fraction, or exceeds the range of exact integers.
    """
    if column.array is not None or all(is_number(value) or is_missing(value) for value in column.coding.values):
        numbers = column.numbers(read_number)
        whole = np.isnan(numbers) | ((np.abs(numbers) <= LARGEST) & (numbers == np.floor(numbers)))
        column.refuse(~whole, "a whole number of at most 2**53", "cut the numbers into ranges")
        return _group_by_numbers(column.name, numbers)
    values = column.coding.values
    order = sorted(range(len(values)), key=lambda i: (is_missing(values[i]), *sort_key(values[i])))
    labels = tuple(MISSING if is_missing(values[i]) else str(values[i]) for i in order)
    return Membership(column.name, np.argsort(order)[column.coding.codes], labels)


def find_references(references: Sequence[str], memberships: Sequence[Membership]) -> dict[str, str]:
    """Parse the reference group of each attribute from strings such as ``sex=Male``.

    Raises:
        OptionError: A string does not have this form, or there is no such attribute or group.
    """
    groups: dict[str, str] = {}
    by_name = {membership.name: membership for membership in memberships}
    for text in references:
        name, equals, label = text.partition("=")
        if not equals or name not in by_name:
            hint = f"{suggest_name(name, by_name)}the attributes are: {', '.join(by_name)}"
            raise OptionError(f"expected a reference as ATTRIBUTE=GROUP, got {text!r}", location="reference", hint=hint)
        membership = by_name[name]
        present = [membership.labels[code] for code in np.unique(membership.codes).tolist()]
        if label not in present:
            hint = f"{suggest_name(label, present)}the groups by {name} are: {list_some(present)}"
            raise OptionError(f"there is no group {label!r} by {name} as a reference", location="reference", hint=hint)
        if groups.setdefault(name, label) != label:
            raise OptionError(f"expected one reference for {name}, got {groups[name]!r} and {label!r}")
    return groups


def _group_by_numbers(name: str, numbers: Floats, counts: Integers | None = None) -> Membership:
    """Group whole numbers (n,), NaN if missing: by value, or by ranges with similar numbers of people."""
    missing = np.isnan(numbers)
    whole = numbers[~missing].astype(np.int64)
    lowest = int(whole.min(initial=0))
    places, keys = number_combinations([(whole - lowest, int(whole.max(initial=0)) - lowest + 1)])
    ends = values = keys[:, 0] + lowest
    labels = [str(value) for value in values.tolist()]
    if len(values) > MOST_NUMBERS:
        # A range ends at the boundary between values nearest to a quantile of the people.
        people = np.cumsum(np.bincount(places, None if counts is None else counts[~missing]))
        nearest = [int(np.argmin(np.abs(people / people[-1] - i / RANGES))) for i in range(1, RANGES)]
        ends = np.unique(values[[*nearest, -1]])
        starts = [int(values[0]), *(ends[:-1] + 1).tolist()]
        labels = [
            str(start) if start == end else f"{start} to {end}"
            for start, end in zip(starts, ends.tolist(), strict=True)
        ]
    codes = np.full(len(numbers), len(labels), dtype=np.int64)
    codes[~missing] = np.searchsorted(ends, values)[places]
    return Membership(name, codes, (*labels, MISSING) if missing.any() else tuple(labels))
