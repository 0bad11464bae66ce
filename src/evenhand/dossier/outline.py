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
    """A dossier: its title, what it is in a sentence, and the fields that people fill.

    Attributes:
        required, optional: places in the configuration.
    """

    title: str
    about: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


OUTLINES: dict[DossierName, Outline] = {
    "ll144": Outline(
        "Summary of a bias audit",
        "Selection or scoring rates and impact ratios by sex, race or ethnicity, and both, as New York City asks for.",
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
        "The four-fifths comparison with its tests, and what a single selection would change.",
        ("system.name", "audit.date", "data.explanation"),
        ("system.version", "auditor.name", "audit.owner", "data.whose", "data.period"),
    ),
    "disparity": Outline(
        "Disparity of outcomes and scores",
        "Ratios, differences and odds of outcomes, and standardised differences of scores.",
        ("system.name", "audit.date", "data.explanation"),
        ("system.version", "auditor.name", "audit.owner", "data.whose", "data.period"),
    ),
    "alternatives": Outline(
        "Search for less discriminatory alternatives",
        "The model in use, the search that was declared, every candidate with its numbers, and which was chosen.",
        ("system.name", "audit.date", "data.explanation"),
        ("system.version", "auditor.name", "audit.owner"),
    ),
}
"""Each dossier -> its title, what it says, and the entries that it needs."""

TEST_DATA = ("data.why_test", "data.how_made")
"""Fields that test data alone needs."""


def list_fields(config: DossierConfig, name: DossierName) -> Iterator[tuple[str, str, str | None, bool]]:
    """Yield the fields of a dossier: place in the configuration, what it is, what was said, whether it is required."""
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
    """Yield the required fields that are empty.

    Raises:
        DossierError: no-alternatives: a dossier of alternatives without the result of a mitigation.
    """
    for name in dict.fromkeys(dossiers):
        for place, asks, value, required in list_fields(config, name):
            if required and value is None:
                yield OpenField(dossier=name, field=place, asks=asks)
        if name == "alternatives" and not evidence:
            raise DossierError(
                "alternatives are told by the result of a mitigation, and there is none",
                code="no-alternatives",
                location="results",
                hint="write one as JSON with evenhand mitigate, and give it: `results=[FILE]`",
            )
