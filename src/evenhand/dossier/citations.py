"""Laws and rules cited in dossiers, with their status, validity and last check."""

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
"""Number of days after which the check of a citation is outdated."""


class Citation(ResultPart):
    """Law, rule or draft.

    Attributes:
        id: Name in the file of citations.
        citation: Official citation.
        dossiers: Dossiers that cite it.
        status: Legal status.
        valid_from, valid_to: First and last day of validity. None without a limit.
        source: Source of the text.
        seen: Text that was read for the last check.
        checked_on: Date of the last check.
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
        """Return whether the rule applies on the given day. Drafts never apply."""
        return (
            self.status != "draft"
            and (self.valid_from is None or self.valid_from <= day)
            and (self.valid_to is None or day <= self.valid_to)
        )

    def is_stale(self, day: dt.date) -> bool:
        """Return whether the last check is outdated on the given day."""
        return (day - self.checked_on).days > STALE_DAYS


@cache
def list_citations() -> tuple[Citation, ...]:
    """Read all citations."""
    file = Path(__file__).parent / "citations.yaml"
    content = read_configuration(file, example="citations.yaml", entries="citations")
    return TypeAdapter(tuple[Citation, ...]).validate_python(content["citations"])


def cite(id: str) -> str:
    """Return the official citation of a law, by its name in the file."""
    return next(citation.citation for citation in list_citations() if citation.id == id)


def require_validity(dossiers: Sequence[str], day: dt.date) -> tuple[Citation, ...]:
    """Return the citations of the given dossiers, and check that all except drafts apply on the given day.

    Raises:
        DossierError: A law does not apply (``not-in-force``).
    """
    citations = tuple(citation for citation in list_citations() if set(citation.dossiers) & set(dossiers))
    for law in citations:
        if law.status != "draft" and not law.applies(day):
            valid = f"from {law.valid_from}" if law.valid_from and day < law.valid_from else f"until {law.valid_to}"
            raise DossierError(
                f"{law.citation} does not apply on {day}: it is valid {valid}",
                code="not-in-force",
                location="audit.date",
                hint="use the law of another day: `as_of=DATE`",
                citation=law.id,
            )
    return citations
