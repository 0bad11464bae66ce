"""Tables that regulations ask for, as far as an audit can fill them, and what their user must add.

Sources: New York City Administrative Code 20-870 to 20-874 (Local Law 144 of 2021) with its rules, 6 RCNY 5-300 to
5-304; the Uniform Guidelines on Employee Selection Procedures, 29 CFR 1607.4 D (four-fifths rule); Regulation (EU)
2024/1689 (AI Act), Annex IV. Whether one of them applies, and whether it is complied with, no table can say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.groups import Breakdown, four_fifths_sentence
from evenhand.stats import Quantity, quantity_value
from evenhand.text import format_count, join_names

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult

MINOR = 0.02
"""Below this share of all people, an auditor may leave a category out of impact ratios (6 RCNY 5-301 d)."""

SEX = ("sex", "gender")
RACE = ("race", "ethnic")


@dataclass(frozen=True)
class ImpactRow:
    """One category: how many were assessed and selected, and its rate against the most selected category's.

    Attributes:
        ratio: selection rate / highest selection rate among categories that are not too small; None if there is none.
        note: why a cell is empty or what may be left out.
    """

    category: str
    people: int
    selected: int | None
    rate: Quantity
    ratio: float | None
    small: bool
    note: str


@dataclass(frozen=True)
class ImpactTable:
    """Selection rates and impact ratios by one attribute or by several at once."""

    by: str
    rows: tuple[ImpactRow, ...]
    is_intersection: bool


@dataclass(frozen=True)
class FourFifthsResult:
    """The four-fifths rule for one breakdown: the lowest selection rate against the highest."""

    by: str
    highest: str
    lowest: str
    ratio: Quantity
    finding: str


@dataclass(frozen=True)
class RequiredItem:
    """One thing that a regulation asks for: what this report holds of it, and what remains to be written."""

    place: str
    asks: str
    here: str
    yours: str


def impact_tables(audit: AuditResult) -> list[ImpactTable]:
    """Return the tables of Local Law 144: selection rates and impact ratios by category, single and intersected."""
    return [_impact_table(breakdown, audit.groups.min_group_size) for breakdown in audit.groups.breakdowns]


def four_fifths(audit: AuditResult) -> list[FourFifthsResult]:
    """Return the four-fifths rule for every breakdown of two groups or more."""
    found = []
    for breakdown in audit.groups.breakdowns:
        gap = breakdown.gap("demographic_parity_ratio")
        if gap is None:
            continue
        found.append(
            FourFifthsResult(join_names(breakdown.by), gap.best, gap.worst, gap.value, four_fifths_sentence(gap))
        )
    return found


def local_law_144(audit: AuditResult) -> list[RequiredItem]:
    """Return what a summary of a bias audit must hold (6 RCNY 5-301 and 5-303)."""
    sexes = [name for name in audit.protected if any(word in name.lower() for word in SEX)]
    races = [name for name in audit.protected if any(word in name.lower() for word in RACE)]
    crossed = any(
        set(breakdown.by) & set(sexes) and set(breakdown.by) & set(races) for breakdown in audit.groups.breakdowns
    )
    absent = [what for what, names in (("sex", sexes), ("race or ethnicity", races)) if not names]
    lacking = f"no protected attribute here is called {' or '.join(absent)}: audit again with it" if absent else ""
    return [
        RequiredItem(
            "5-301 (b)",
            "selection rate and impact ratio by sex",
            "filled below" if sexes else "",
            _remaining_tasks(sexes),
        ),
        RequiredItem(
            "5-301 (b)",
            "the same by race or ethnicity",
            "filled below" if races else "",
            _remaining_tasks(races),
        ),
        RequiredItem(
            "5-301 (b)",
            "the same for intersections of sex with race or ethnicity",
            "filled below" if crossed else "",
            "" if crossed else lacking or "audit both attributes together",
        ),
        RequiredItem(
            "5-301 (c)",
            "scoring rates, where the tool gives scores and not decisions",
            "",
            "not computed: this report counts decisions. A tool used by its scores needs the share of each category "
            "above the median score",
        ),
        RequiredItem(
            "5-301 (b), (c)",
            "people in an unknown category",
            f"{audit.data.dropped:,} rows were left out because a value that may not be missing was",
            "say how many of them lack sex or race",
        ),
        RequiredItem(
            "5-301 (d)",
            "categories below 2 % of the people may be left out of impact ratios",
            "marked below; none is left out for it",
            "the auditor's choice and its justification",
        ),
        RequiredItem(
            "5-302", "historical data, or test data with the reason", f"the people in {audit.data.name}", "which it is"
        ),
        RequiredItem(
            "5-303",
            "date of the audit, source and explanation of the data, distribution date of the tool",
            "",
            "all three",
        ),
        RequiredItem("20-870", "an independent auditor", "", "who it was: a person with no stake in the tool"),
    ]


def annex_iv(audit: AuditResult) -> list[RequiredItem]:
    """Return the data and testing parts of the technical documentation of a high-risk system (AI Act, Annex IV)."""
    proofs = f" and the proofs of {format_count(len(audit.certificates), 'certificate', 'certificates')}"
    trained = {
        True: "the model is known to have been trained on these people",
        False: "the model was not trained on these people",
        None: "whether the model was trained on these people is not known",
    }[audit.data.training_rows]
    return [
        RequiredItem(
            "1 (a)", "intended purpose, provider, version", f"the model's name, {audit.model.name}", "all of them"
        ),
        RequiredItem(
            "2 (d)",
            "training data: origin, scope, how obtained, labelled and cleaned",
            f"{trained}; the schema by which the data was read",
            "the data sheet of the training data",
        ),
        RequiredItem(
            "2 (g)",
            "validation and testing data and their main characteristics",
            "Who is in the data, with the data's fingerprint",
            "where it comes from and why it represents those the system is used on",
        ),
        RequiredItem(
            "2 (g)",
            "metrics for accuracy and robustness",
            "accuracy, precision, error rates, with intervals, under Groups",
            "robustness against disturbed inputs; why these metrics",
        ),
        RequiredItem(
            "2 (g)",
            "metrics for potentially discriminatory impacts",
            f"gaps between groups, flips for individuals{proofs if audit.certificates else ''}",
            "why these attributes; what was done about the findings",
        ),
        RequiredItem(
            "2 (g)",
            "test logs and test reports, dated and signed",
            "this report and report.json: seed, settings, versions",
            "date and signature",
        ),
        RequiredItem(
            "3",
            "degrees of accuracy for specific persons or groups, overall expected accuracy",
            "the tables under Groups, intersections among them",
            "the groups the system is meant for, if others than these",
        ),
        RequiredItem(
            "3",
            "foreseeable risks of discrimination",
            "the findings of this report",
            "their weight in the intended use; oversight and input specifications",
        ),
        RequiredItem("4", "why the performance metrics are appropriate", "", "all of it"),
        RequiredItem("5", "the risk management system (Article 9)", "", "all of it; this report can be evidence in it"),
    ]


def _remaining_tasks(names: list[str]) -> str:
    if not names:
        return "no protected attribute here has such a name: audit again with it"
    return f"that the values of {', '.join(names)} are the categories the rules name"


def _impact_table(breakdown: Breakdown, least: int) -> ImpactTable:
    people = sum(group.size for group in breakdown.groups)
    rates = [
        value
        for group in breakdown.groups
        if not group.small and (value := quantity_value(group.metrics["selection_rate"])) is not None
    ]
    # The ratio is to the most selected category; those that are too small do not set it.
    highest = max(rates, default=0.0)
    rows = []
    for group in breakdown.groups:
        rate = group.metrics["selection_rate"]
        value = quantity_value(rate)
        notes = []
        if group.small:
            notes.append(f"fewer than {least} people: no ratio")
        elif value is None:
            notes.append("no rate, no ratio")
        elif highest == 0:
            notes.append("no group has anyone selected: no ratio")
        if people and group.size < MINOR * people:
            notes.append("below 2 % of the people")
        rows.append(
            ImpactRow(
                category=group.label,
                people=group.size,
                selected=None if value is None else round(value * group.size),
                rate=rate,
                ratio=None if group.small or value is None or highest == 0 else value / highest,
                small=group.small,
                note="; ".join(notes),
            )
        )
    return ImpactTable(by=join_names(breakdown.by), rows=tuple(rows), is_intersection=len(breakdown.by) > 1)
