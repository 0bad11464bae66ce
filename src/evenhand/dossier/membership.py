"""Group probabilities from names and places, with tables supplied by the user."""

from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.text import find_repeated, suggest_name
from evenhand.core.typing import Floats
from evenhand.datasets.tables import read_frame
from evenhand.dossier.config import ProxyFields
from evenhand.errors import DataError, DossierError
from evenhand.groups.breakdown import ProxyRates
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.table import is_missing

NAME = "name"
"""Column of a table that contains the surname, first name or place. All other columns are groups."""

BY = "group by proxy"


class ProxyTable(ResultPart):
    """Table of probabilities: column that it applies to, file and SHA-256."""

    column: str
    file: str
    sha256: str


class OutcomeProxies(ResultPart):
    """Rates of an outcome or class by group, from group probabilities."""

    of: str
    rates: ProxyRates


def read_memberships(
    frame: Any, proxy: ProxyFields, *, location: str | None = None
) -> tuple[GroupProbabilities, tuple[ProxyTable, ...]]:
    """Compute the group probabilities of each person: normalised ``P(g | surname) P(first name | g) P(place | g)``.

    This is BIFSG (Voicu, "Using first name information to improve race and ethnicity classification", Statistics and
    Public Policy 2018); without a column of first names, it is BISG. Case, accents and punctuation of names are
    ignored. People who are missing in a table have an unknown group.

    Args:
        frame: People.
        proxy: Columns and tables.
        location: Name of the file in messages.

    Raises:
        DossierError: A column is missing (``no-column``).
        DataError: A table cannot be read, or does not contain probabilities by name.
    """
    people = nw.from_native(frame, eager_only=True)
    product: Floats | None = None
    groups: tuple[str, ...] = ()
    read = []
    for part in ("surname", "first_name", "geography"):
        column, file = getattr(proxy, part), getattr(proxy.tables, part)
        if column is None:
            continue
        if column not in people.columns:
            names = list(map(str, people.columns))
            hint = f"{suggest_name(column, names)}the columns are: {', '.join(names)}"
            message = f"there is no column {column!r}"
            raise DossierError(message, code="no-column", location=location, hint=hint, column=column)
        columns, values = _read_table(file)
        if product is not None and set(columns) != set(groups):
            raise DataError(
                f"expected the groups {', '.join(groups)}, as in the first table, got {', '.join(columns)}",
                location=str(file),
            )
        groups = groups or columns
        order = [columns.index(group) for group in groups]
        missing = np.full(len(groups), np.nan)
        words = [_fold(word) for word in people.get_column(column).to_list()]
        factor = np.array([values[word][order] if word in values else missing for word in words])
        product = factor if product is None else product * factor
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        read.append(ProxyTable(column=column, file=str(file), sha256=digest))
    assert product is not None  # a surname is required
    total = product.sum(axis=1, keepdims=True)
    # People who are missing in a table have no probabilities, and neither do names with probability 0 for all groups.
    normalised = np.divide(product, total, out=np.full_like(product, np.nan), where=total > 0)
    return GroupProbabilities(BY, groups, normalised), tuple(read)


def _read_table(file: str) -> tuple[tuple[str, ...], dict[str, Floats]]:
    """Read the groups of a table, and the probabilities by name."""
    table = nw.from_native(read_frame(file, words=True), eager_only=True)
    groups = tuple(str(column) for column in table.columns if column != NAME)
    if NAME not in table.columns or len(groups) < 2:
        raise DataError(
            f"expected a column {NAME!r} and one column for each of at least two groups, got "
            f"{', '.join(map(str, table.columns))}",
            location=str(file),
        )
    names = [_fold(word) for word in table.get_column(NAME).to_list()]
    try:
        values = np.column_stack([table.get_column(group).to_numpy().astype(np.float64) for group in groups])
    except (TypeError, ValueError):
        values = np.full((len(names), len(groups)), np.nan)
    invalid = ~(np.isfinite(values) & (values >= 0) & (values <= 1)).all(axis=1)
    if invalid.any():
        row = int(np.argmax(invalid)) + 1
        raise DataError("expected probabilities from 0 to 1 in every column", location=f"{file}, row {row:,}")
    repeated = find_repeated(names)
    if repeated:
        raise DataError(f"duplicate name {repeated[0]!r}", location=str(file), hint="keep one row")
    return groups, dict(zip(names, values, strict=True))


def _fold(word: Any) -> str:
    """Normalise a name for comparisons to upper-case letters and digits."""
    plain = "" if is_missing(word) else unicodedata.normalize("NFKD", str(word)).upper()
    return "".join(letter for letter in plain if letter.isalnum())
