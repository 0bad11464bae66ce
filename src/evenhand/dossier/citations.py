"""Laws and rules that dossiers name: one file, with their status, their validity, and what was read of them when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from evenhand.core.configuration import read_configuration
from evenhand.core.result_part import ResultPart
from evenhand.errors import DossierError

STALE_DAYS = 180
"""Days after which a check of a citation counts as old."""


class Citation(ResultPart):
    """A law, a rule or a draft.

    Attributes:
        id: its name in this file; citation: how it is cited; dossiers: those that print it.
        status: what it is; valid_from, valid_to: first and last day on which it applies, None where there is none.
        source: where its text stands; seen: what was read of it; checked_on: when that was.
    """

    id: str
    citation: str
    dossiers: tuple[str, ...]
    status: Literal["in force", "adopted", "draft", "being repealed", "repealed"]
    valid_from: dt.date | None
    valid_to: dt.date | None
    source: str
    seen: Literal["primary", "copy", "secondary", "none"]
    checked_on: dt.date

    def applies(self, day: dt.date) -> bool:
        """Return whether it applies on a day. A draft never applies."""
        return (
            self.status != "draft"
            and (self.valid_from is None or self.valid_from <= day)
            and (self.valid_to is None or day <= self.valid_to)
        )

    def is_stale(self, day: dt.date) -> bool:
        """Return whether the last check is more than 180 days old on a day."""
        return (day - self.checked_on).days > STALE_DAYS


@cache
def list_citations() -> tuple[Citation, ...]:
    """Return all citations."""
    place = Path(__file__).parent / "citations.yaml"
    found = read_configuration(place, example="citations.yaml", entries="citations")
    return TypeAdapter(tuple[Citation, ...]).validate_python(found["citations"])


def cite(id: str) -> str:
    """Return how a law is cited, by its name in the file."""
    return next(one.citation for one in list_citations() if one.id == id)


def require_validity(dossiers: Sequence[str], day: dt.date) -> tuple[Citation, ...]:
    """Return the citations of some dossiers, which must apply on a day; drafts are told as such and not required.

    Raises:
        DossierError: not-in-force.
    """
    found = tuple(one for one in list_citations() if set(one.dossiers) & set(dossiers))
    for one in found:
        if one.status != "draft" and not one.applies(day):
            valid = f"from {one.valid_from}" if one.valid_from and day < one.valid_from else f"until {one.valid_to}"
            raise DossierError(
                f"{one.citation} does not apply on {day}: it is valid {valid}",
                code="not-in-force",
                location="audit.date",
                hint="make the dossier by the law of another day: `as_of=DATE`",
                citation=one.id,
            )
    return found
