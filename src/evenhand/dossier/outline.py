"""What each dossier is, and what people must say in it: what is open is printed as open, never made up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from evenhand.dossier.config import DossierConfig, DossierPart
from evenhand.dossier.evidence import ResultFile
from evenhand.dossier.result import DossierName, OpenField
from evenhand.errors import DossierError, OptionError
from evenhand.text import suggest_name

OPEN = "to be filled"


class Outline(NamedTuple):
    """A dossier: its title, what it is in a sentence, the fields that people fill, and its items.

    Attributes:
        required, optional: places in the configuration.
        items: of a document that a law divides into items: the name of each -> what people must state of it.
        evidence: the kind of result that it needs, and what for; empty: none.
    """

    title: str
    about: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    items: Mapping[str, str] = MappingProxyType({})
    evidence: tuple[str, str] = ("", "")


ANNEX_IV = {
    "1": "general description: purpose, provider, version, what it interacts with, forms in which it is supplied, "
    "hardware, user interface, instructions for use",
    "2a": "methods and steps of development, and what was taken from others",
    "2b": "design: logic, key choices and assumptions, what it is optimised for, trade-offs",
    "2c": "architecture, and computing resources",
    "2d": "data: provenance, scope, selection, labelling, cleaning",
    "2e": "human oversight that it needs, and the technical means for it",
    "2f": "changes that are determined in advance",
    "2g": "tests of accuracy and discriminatory impacts: who signed their reports, and when",
    "2h": "cybersecurity",
    "3": "foreseeable unintended outcomes, sources of risk, human oversight, specification of input data",
    "4": "why these performance metrics are appropriate for this system",
    "5": "risk management system",
    "6": "changes made through its lifecycle",
    "7": "harmonised standards applied, or what was done in their place",
    "8": "EU declaration of conformity (copy)",
    "9": "plan for monitoring after it is placed on the market",
}
"""Items of Annex IV: what people must state of each."""

FRIA = {
    "a": "the processes in which the system is used, in line with its purpose",
    "b": "for how long, and how often, it is used",
    "d": "the specific risks of harm to these people",
    "e": "how human oversight is implemented",
    "f": "what is done if the risks materialise: internal governance, complaints",
}
"""Items of Article 27 (1): what people must state of each; (c) is counted from the data."""

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
    "annex-iv": Outline(
        "Technical documentation: what was measured, and what is to be stated",
        "The items of Annex IV and of Article 10 (2) and (3) in their order: numbers where they can be measured.",
        ("system.name", "system.vendor", "system.version", "system.purpose", "audit.date", "data.explanation"),
        ("auditor.name", "audit.owner", "data.whose", "data.period", "data.obtained", "population.source"),
        items=ANNEX_IV,
        evidence=("audit", "accuracy by group (item 3)"),
    ),
    "fria": Outline(
        "Fundamental rights impact assessment: what was measured, and what is to be stated",
        "The items of Article 27 (1) in their order: the groups affected and what was measured of them.",
        ("system.name", "system.purpose", "audit.date", "data.explanation"),
        ("system.vendor", "system.version", "audit.owner", "data.whose", "data.period"),
        items=FRIA,
    ),
    "bias-scenarios": Outline(
        "Bias scenarios",
        "Each declared scenario: what was measured of it beside its threshold, what is done, and when it is reviewed.",
        ("system.name", "audit.date", "data.explanation"),
        ("system.version", "auditor.name", "audit.owner", "data.whose", "data.period"),
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


def read_statement(config: DossierConfig, name: DossierName, item: str) -> str | None:
    """Return what people said of an item of a dossier, None if nothing."""
    return (config.statements.get(name, {}).get(item) or "").strip() or None


def check_statements(config: DossierConfig) -> None:
    """Refuse statements about items that no dossier has.

    Raises:
        OptionError: there is no such dossier, or no such item.
    """
    having = list_items()
    for name, statements in config.statements.items():
        if name not in having:
            hint = f"{suggest_name(name, list(having))}one of: {', '.join(having)}"
            raise OptionError(f"no dossier {name!r} has items to state", location="statements", hint=hint)
        for item in statements:
            if item not in having[name]:
                hint = f"items: {', '.join(having[name])}"
                raise OptionError(f"there is no item {item!r}", location=f"statements.{name}", hint=hint)


def find_open_fields(
    config: DossierConfig, dossiers: Sequence[DossierName], evidence: Sequence[ResultFile] = ()
) -> Iterator[OpenField]:
    """Yield the required fields, items and results that are not there.

    Raises:
        DossierError: no-alternatives: a dossier of alternatives without the result of a mitigation.
    """
    for name in dict.fromkeys(dossiers):
        for place, asks, value, required in list_fields(config, name):
            if required and value is None:
                yield OpenField(dossier=name, field=place, asks=asks)
        outline = OUTLINES[name]
        for item, asks in outline.items.items():
            if read_statement(config, name, item) is None:
                yield OpenField(dossier=name, field=f"statements.{name}.{item}", asks=asks)
        kind, purpose = outline.evidence
        if kind and not any(one.result_kind == kind for one in evidence):
            yield OpenField(dossier=name, field="results", asks=f"the result of an {kind}, for {purpose}")
        if name == "alternatives" and not any(one.alternatives or one.record or one.refutation for one in evidence):
            raise DossierError(
                "alternatives are told by the result of a mitigation, and there is none",
                code="no-alternatives",
                location="results",
                hint="write one as JSON with evenhand mitigate, and give it: `results=[FILE]`",
            )
        if name == "bias-scenarios":
            yield from _find_open_scenarios(config)


def _find_open_scenarios(config: DossierConfig) -> Iterator[OpenField]:
    if not config.scenarios:
        yield OpenField(dossier="bias-scenarios", field="scenarios", asks="the scenarios")
    for number, one in enumerate(config.scenarios):
        threshold = one.threshold
        if threshold is None and one.measure in ("ratio", "difference"):
            threshold = getattr(config.thresholds, one.measure)
        filled = {
            "hazard": one.hazard,
            "threshold": threshold,
            "mitigation": one.mitigation,
            "review_trigger": one.review_trigger,
        }
        for field, value in filled.items():
            if value is None:
                asks = f"{type(one).model_fields[field].description} (scenario {number + 1})"
                yield OpenField(dossier="bias-scenarios", field=f"scenarios[{number}].{field}", asks=asks)


def list_items() -> dict[str, Mapping[str, str]]:
    """Return what people must state of each item, by dossier; only of dossiers that have items."""
    return {str(name): outline.items for name, outline in OUTLINES.items() if outline.items}
