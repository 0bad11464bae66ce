"""Probabilities of membership from names and places, by tables that the user brings: none are bundled."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.text import suggest_name
from evenhand.core.typing import Floats
from evenhand.datasets.tables import read_words
from evenhand.dossier.config import ProxyFields
from evenhand.errors import DataError, DossierError
from evenhand.groups.proxies.result import ProxyRates
from evenhand.schema.probabilities import GroupProbabilities

NAME = "name"
"""The column of a table that holds the surname, the first name or the place; every other is a group."""

BY = "group by proxy"


class ProxyTable(ResultPart):
    """A table of probabilities as it was read: for which column, its file, and the SHA-256 of it."""

    column: str
    file: str
    sha256: str


class OutcomeProxies(ResultPart):
    """Rates of one outcome or class, of groups that are known by probability alone."""

    of: str
    rates: ProxyRates


def read_memberships(
    frame: Any, proxy: ProxyFields, *, location: str | None = None
) -> tuple[GroupProbabilities, tuple[ProxyTable, ...]]:
    """Return each person's probabilities, ``P(g | surname) P(first name | g) P(place | g)`` normalised.

    The form is that of BIFSG (Voicu, "Using first name information to improve race and ethnicity classification",
    Statistics and Public Policy 2018); without a column of first names that of BISG. Names are compared in capital
    letters without accents and punctuation; who is not found in each table is of unknown group.

    Args:
        frame: the people.
        proxy: which columns, and the tables.
        location: the file, for messages.

    Raises:
        DossierError: no-column.
        DataError: a table cannot be read, or holds something else than probabilities by name.
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
            known = list(map(str, people.columns))
            hint = f"{suggest_name(column, known)}the columns are: {', '.join(known)}"
            message = f"there is no column {column!r}"
            raise DossierError(message, code="no-column", location=location, hint=hint, column=column)
        found, values = _read_table(file)
        if product is not None and set(found) != set(groups):
            raise DataError(
                f"expected the groups {', '.join(groups)}, as in the first table, got {', '.join(found)}",
                location=str(file),
            )
        groups = groups or found
        order = [found.index(group) for group in groups]
        missing = np.full(len(groups), np.nan)
        words = [_fold(word) for word in people.get_column(column).to_list()]
        given = np.array([values[word][order] if word in values else missing for word in words])
        product = given if product is None else product * given
        read.append(ProxyTable(column=column, file=str(file), sha256=_hash_file(file)))
    assert product is not None  # a surname is required
    total = product.sum(axis=1, keepdims=True)
    # Who is not found has no probabilities, and neither has a name that no group is said to bear.
    normalised = np.divide(product, total, out=np.full_like(product, np.nan), where=total > 0)
    return GroupProbabilities(BY, groups, normalised), tuple(read)


def _read_table(file: str) -> tuple[tuple[str, ...], dict[str, Floats]]:
    """Return the groups of a table, and the probabilities by name."""
    table = nw.from_native(read_words(file), eager_only=True)
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
    wrong = ~(np.isfinite(values) & (values >= 0) & (values <= 1)).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise DataError("expected probabilities from 0 to 1 in every column", location=f"{file}, row {row:,}")
    repeated = _first_repeated(names)
    if repeated is not None:
        raise DataError(f"the name {repeated!r} is there twice", location=str(file), hint="keep one row of it")
    return groups, dict(zip(names, values, strict=True))


def _first_repeated(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _fold(word: Any) -> str:
    """Return a name as it is compared: capital letters and digits alone."""
    if word is None or word != word:
        return ""
    plain = unicodedata.normalize("NFKD", str(word)).upper()
    return "".join(letter for letter in plain if letter.isalnum())


def _hash_file(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
