"""Make a dossier of people and outcomes, and check one against its data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.reading import OutcomeReading, TableReading
from evenhand.core.result import Result
from evenhand.core.typing import Booleans
from evenhand.dossier.citations import require_validity
from evenhand.dossier.config import DossierConfig, check_dossier_config
from evenhand.dossier.evidence import read_evidence
from evenhand.dossier.findings import bound_rates, find_beyond_thresholds
from evenhand.dossier.membership import OutcomeProxies, ProxyTable, read_memberships
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
from evenhand.groups.proxies.rates import measure_proxies
from evenhand.schema.counted import is_lazy


def compile_dossier(
    frame: Any,
    config: DossierConfig | Mapping[str, Any],
    *,
    dossiers: Sequence[DossierName] = ("ll144",),
    as_of: dt.date | None = None,
    today: dt.date | None = None,
    data: DataFile | None = None,
    results: Sequence[Result | Path | str] = (),
) -> DossierResult:
    """Compute the tables that rules ask for, from people and outcomes alone, by the rules' own formulas.

    Args:
        frame: a data frame, one person per row, with the columns that the configuration names. The rows of a lazy one
            (Polars, DuckDB, Spark, ...) are counted where they are; the numbers are the same.
        config: columns, categories, and what people must say; or the entries of a configuration, as a mapping.
        dossiers: which documents are wanted.
        as_of: the day by whose law it is made; by default the day of the audit, or today where that is open.
        today: the day on which it is made.
        data: what the data is called; its name is part of messages.
        results: of mitigations, searches for alternatives and refutations, or their JSON files, as evidence.

    Raises:
        DossierError: people, outcomes or the configuration do not allow it; ``code`` says why.
        DataError: a result cannot be read, or is of a kind or a schema version that is not known here.
        OptionError: an entry of the configuration is missing, unknown or invalid.
    """
    config = config if isinstance(config, DossierConfig) else check_dossier_config(config)
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
    if config.proxy is not None and "disparity" not in dossiers:
        raise OptionError(
            f"groups known by probability are shown by the dossier disparity alone, got {', '.join(dossiers)}",
            location="proxy",
            hint="leave proxy out, or write disparity",
        )
    if config.proxy is not None and is_lazy(frame):
        raise OptionError(
            "groups known by names and places need every person, and these rows are counted where they are",
            location="proxy",
            hint="leave proxy out, or read a sample of the rows into memory",
        )
    evidence = read_evidence(results)
    open_fields = tuple(find_open_fields(config, dossiers, evidence))
    law_date = as_of or audited_on or made_on
    citations = require_validity(dossiers, law_date)
    data = data or DataFile(name="a data frame")
    people = read_people(frame, config, location=data.name)
    crossings = cross_people(people, config)
    exclusions = find_exclusions(crossings, config)
    unknown = np.zeros(len(people.assessed), dtype=bool)
    for column in people.attributes.values():
        unknown |= column.codes < 0
    assessed, number = people.number(people.assessed), int(people.counts.sum())
    runs = tuple(
        _tabulate_outcome(of, who[people.assessed], crossings, exclusions, people) for of, who in people.outcomes
    )
    proxies, proxy_tables = _measure_proxies(frame, people, config, data.name)
    words = people.words
    decision = OutcomeReading(
        column=config.outcome.column,
        favourable=tuple(words.selected),
        unfavourable=tuple(words.rejected),
        unknown=tuple(words.unknown),
    )
    return DossierResult(
        table_reading=TableReading(
            rows=number,
            used=assessed,
            left_out={"without an outcome": number - assessed} if assessed < number else {},
            decision=decision,
            unknown=people.unknown,
        ),
        people=number,
        no_outcome=number - assessed,
        assessed=assessed,
        outcome_words=words,
        unknown_any=people.number(unknown & people.assessed),
        median=None if people.scores is None else people.scores.median,
        runs=runs,
        trade=_compare_scores(people, crossings, config),
        intervals=tuple(bound_rates(run.of, table) for run in runs for table in run.ll144),
        thresholds=tuple(one for run in runs for one in find_beyond_thresholds(run.of, run.four_fifths, config)),
        proxies=proxies,
        proxy_tables=proxy_tables,
        evidence=evidence,
        dossiers=tuple(dict.fromkeys(dossiers)),
        config=config,
        open_fields=open_fields,
        citations=citations,
        law_date=law_date,
        made_on=made_on,
        data=data,
    )


def _measure_proxies(
    frame: Any, people: AssessedPeople, config: DossierConfig, location: str
) -> tuple[tuple[OutcomeProxies, ...], tuple[ProxyTable, ...]]:
    """Return the rates of groups known by probability, of each outcome, and the tables; nothing without a proxy."""
    if config.proxy is None:
        return (), ()
    memberships, tables = read_memberships(frame, config.proxy, location=location)
    assessed = np.flatnonzero(people.assessed)
    found = memberships.at(assessed)
    return tuple(
        OutcomeProxies(of=of, rates=measure_proxies(who[assessed], found)) for of, who in people.outcomes
    ), tables


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
    if people.scores is None or not config.reference:
        return None
    return tuple(
        compare_scores(table, people.scores, people.assessed)
        for table in crossings
        if len(table.by) == 1 and table.reference is not None
    )


def find_changed_cells(written: DossierResult, frame: Any, *, results: Sequence[Result | Path | str] = ()) -> list[str]:
    """Compute a dossier again from its data, and return every cell that differs, by its place in the JSON.

    Numbers may differ by 1e-9 relatively, which is what another machine may round differently.

    Args:
        written: the dossier as it was read.
        frame: the people that it is said to be about.
        results: those that it rests on, in the same order.

    Raises:
        OptionError: it rests on results, and they are not given.
        DossierError: these people do not fit its configuration.
    """
    if written.evidence and not results:
        names = ", ".join(one.name for one in written.evidence)
        raise OptionError(f"this dossier rests on results: {names}", hint="give them: `results=[FILE, ...]`")
    again = compile_dossier(
        frame,
        written.config,
        dossiers=written.dossiers,
        as_of=written.law_date,
        today=written.made_on,
        data=written.data,
        results=results,
    )
    skipped = {"evenhand", "citations", "data", "seconds"}
    skipped |= {name for name in ("outcome_words", "table_reading") if getattr(written, name) is None}
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
