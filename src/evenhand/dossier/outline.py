"""Title, purpose and required entries of each dossier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evenhand.dossier.config import DossierConfig, DossierPart
from evenhand.dossier.evidence import ResultFile
from evenhand.dossier.result import DossierName, OpenField
from evenhand.errors import DossierError

OPEN = "to be filled"


class Outline(NamedTuple):
    """Title, description and fields of a dossier.

    Attributes:
        title: Title.
        about: Description in one sentence.
        required, optional: Fields of the configuration that a person fills in.
    """

    title: str
    about: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


REQUIRED = ("system.name", "audit.date", "data.explanation")
OPTIONAL = ("system.version", "auditor.name", "audit.owner")

OUTLINES: dict[DossierName, Outline] = {
    "ll144": Outline(
        "Summary of a bias audit",
        "Selection or scoring rates and impact ratios by sex, race or ethnicity, and both, as New York City requires.",
        (
            "system.name",
            "system.distribution_date",
            "auditor.name",
            "auditor.organisation",
            "auditor.independence",
            "audit.date",
            "data.kind",
            "data.whose",
            "data.explanation",
        ),
        ("system.vendor", "system.version", "data.period", "data.obtained"),
    ),
    "ugesp": Outline(
        "Adverse impact of a selection",
        "The four-fifths comparison with its tests, and the effect of a single selection.",
        REQUIRED,
        (*OPTIONAL, "data.whose", "data.period"),
    ),
    "disparity": Outline(
        "Disparity of outcomes and scores",
        "Ratios, differences and odds of outcomes, and standardised differences of scores.",
        REQUIRED,
        (*OPTIONAL, "data.whose", "data.period"),
    ),
    "alternatives": Outline(
        "Search for less discriminatory alternatives",
        "The model in use, the declared search, all candidates with their numbers, and the selected one.",
        REQUIRED,
        OPTIONAL,
    ),
}
"""Outline of each dossier."""

TEST_DATA = ("data.why_test", "data.how_made")
"""Additional required fields for test data."""


def list_fields(config: DossierConfig, name: DossierName) -> Iterator[tuple[str, str, str | None, bool]]:
    """Yield the fields of a dossier: path in the configuration, description, value, and whether it is required."""
    outline = OUTLINES[name]
    tests = TEST_DATA if config.data.kind == "test" else ()
    for place in (*outline.required, *tests, *outline.optional):
        part, _, field = place.partition(".")
        section: DossierPart = getattr(config, part)
        value = getattr(section, field)
        if isinstance(value, tuple):
            value = " to ".join(map(str, value))
        text = str(value).strip() if value is not None else ""
        yield place, str(type(section).model_fields[field].description), text or None, place not in outline.optional


def find_open_fields(
    config: DossierConfig, dossiers: Sequence[DossierName], evidence: Sequence[ResultFile] = ()
) -> Iterator[OpenField]:
    """Yield the empty required fields.

    Raises:
        DossierError: The dossier of alternatives has no results (``no-alternatives``).
    """
    for name in dict.fromkeys(dossiers):
        for place, asks, value, required in list_fields(config, name):
            if required and value is None:
                yield OpenField(dossier=name, field=place, asks=asks)
        if name == "alternatives" and not evidence:
            raise DossierError(
                "the dossier of alternatives requires the result of a mitigation, got none",
                code="no-alternatives",
                location="results",
                hint="write the JSON with evenhand mitigate, and pass it: `results=[FILE]`",
            )
