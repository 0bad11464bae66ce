"""Make a dossier of people and outcomes, and check one against its data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evenhand.dossier.citations import require_validity
from evenhand.dossier.config import DossierConfig
from evenhand.dossier.outline import find_open_fields
from evenhand.dossier.people import AssessedPeople, read_people
from evenhand.dossier.result import DataFile, DossierName, DossierResult, OutcomeTables
from evenhand.dossier.tables import (
    Crossing,
    compare_rates,
    compare_within_strata,
    cross_people,
    find_exclusions,
    tabulate_impact_ratios,
)
from evenhand.dossier.trade import ScoreComparisons, compare_scores
from evenhand.errors import DossierError, OptionError
from evenhand.typing import Booleans


def compile_dossier(
    frame: Any,
    config: DossierConfig,
    *,
    dossiers: Sequence[DossierName] = ("ll144",),
    as_of: dt.date | None = None,
    today: dt.date | None = None,
    data: DataFile | None = None,
) -> DossierResult:
    """Compute the tables that rules ask for, from people and outcomes alone, by the rules' own formulas.

    Args:
        frame: a data frame, one person per row, with the columns that the configuration names.
        config: columns, categories, and what people must say.
        dossiers: which documents are wanted.
        as_of: the day by whose law it is made; by default the day of the audit, or today where that is open.
        today: the day on which it is made.
        data: what the data is called; its name is part of messages.

    Raises:
        DossierError: people, outcomes or the configuration do not allow it; ``code`` says why.
    """
    made_on = today or dt.date.today()
    audited_on = config.audit.date
    if audited_on is not None and audited_on > made_on:
        message = f"the audit is dated {audited_on}, and today is {made_on}"
        raise DossierError(
            message, code="audit-date-in-future", location="audit.date", hint="give the day of the audit"
        )
    if config.proxy is not None and "ll144" in dossiers:
        raise DossierError(
            "this dossier counts people by the categories that they have, never by proxies",
            code="proxy-in-ll144",
            location="proxy",
            hint="leave proxy out of its configuration",
        )
    if config.proxy is not None:
        raise OptionError(
            "expected categories that people have, got proxies for them",
            location="proxy",
            hint="leave proxy out; groups.measure_proxies estimates selection rates from probabilities, with bounds",
        )
    law_date = as_of or audited_on or made_on
    citations = require_validity(dossiers, law_date)
    data = data or DataFile(name="a data frame")
    people = read_people(frame, config, location=data.name)
    crossings = cross_people(people, config)
    exclusions = find_exclusions(crossings, config)
    unknown = np.zeros(len(people.assessed), dtype=bool)
    for column in people.attributes.values():
        unknown |= column.codes < 0
    assessed = int(people.assessed.sum())
    return DossierResult(
        people=len(people.assessed),
        no_outcome=len(people.assessed) - assessed,
        assessed=assessed,
        unknown_any=int((unknown & people.assessed).sum()),
        median=people.median,
        runs=tuple(
            _tabulate_outcome(of, who[people.assessed], crossings, exclusions, people) for of, who in people.outcomes
        ),
        trade=_compare_scores(people, crossings, config),
        dossiers=tuple(dict.fromkeys(dossiers)),
        config=config,
        open_fields=tuple(find_open_fields(config, dossiers)),
        citations=citations,
        law_date=law_date,
        made_on=made_on,
        data=data,
    )


def _tabulate_outcome(
    of: str,
    selected: Booleans,
    crossings: Sequence[Crossing],
    exclusions: dict[tuple[tuple[str, ...], tuple[str, ...]], str],
    people: AssessedPeople,
) -> OutcomeTables:
    comparisons = tuple(compare_rates(table, selected) for table in crossings)
    stratified = None
    if people.strata is not None:
        strata = people.strata.codes[people.assessed]
        stratified = tuple(
            compare_within_strata(table, selected, strata, compared.reference)
            for table, compared in zip(crossings, comparisons, strict=True)
        )
    return OutcomeTables(
        of=of,
        ll144=tuple(tabulate_impact_ratios(table, selected, exclusions) for table in crossings),
        four_fifths=comparisons,
        mantel_haenszel=stratified,
    )


def _compare_scores(
    people: AssessedPeople, crossings: Sequence[Crossing], config: DossierConfig
) -> tuple[ScoreComparisons, ...] | None:
    """Return what scores say by each attribute whose reference is declared; None without scores or references."""
    if people.scores is None or people.median is None or not config.reference:
        return None
    scores = people.scores[people.assessed]
    return tuple(
        compare_scores(table, scores, config.quantiles, people.median)
        for table in crossings
        if len(table.by) == 1 and table.reference is not None
    )


def find_changed_cells(written: DossierResult, frame: Any) -> list[str]:
    """Compute a dossier again from its data, and return every cell that differs, by its place in the JSON.

    Numbers may differ by 1e-9 relatively, which is what another machine may round differently.

    Args:
        written: the dossier as it was read.
        frame: the people that it is said to be about.

    Raises:
        DossierError: these people do not fit its configuration.
    """
    again = compile_dossier(
        frame,
        written.config,
        dossiers=written.dossiers,
        as_of=written.law_date,
        today=written.made_on,
        data=written.data,
    )
    skipped = {"evenhand", "citations", "data", "seconds"}
    one, other = ({k: v for k, v in each.plain().items() if k not in skipped} for each in (written, again))
    return list(_differences(one, other, ""))


def _differences(one: Any, other: Any, place: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(key), other.get(key), f"{place}.{key}".removeprefix("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{place}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not abs(one - other) <= 1e-9 * max(abs(one), abs(other)):
            yield f"{place}: written {one!r}, computed {other!r}"
    elif one != other or type(one) is not type(other):
        yield f"{place}: written {one!r}, computed {other!r}"
