"""Compile a dossier from people and outcomes, and verify a dossier against its data."""

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
from evenhand.dossier.findings import bound_rates, check_thresholds
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
from evenhand.groups.config import GroupConfig
from evenhand.groups.proxies import measure_proxies
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
    """Compute the tables that rules require, from people and outcomes, by the formulas of the rules.

    Args:
        frame: Data frame with one person per row and the configured columns. The rows of a lazy frame (Polars, DuckDB,
            Spark, ...) are counted by its engine, with the same numbers.
        config: Configuration of the dossier, or its entries as a mapping.
        dossiers: Documents to compile.
        as_of: Date that determines the applicable law. Default: date of the audit, or today if it is not set.
        today: Date of the dossier.
        data: Name of the data, which is used in messages.
        results: Results of mitigations, searches for alternatives and refutations, or their JSON files.

    Raises:
        DossierError: No dossier is possible for these people, outcomes or settings; ``code`` states the reason.
        DataError: A result cannot be read, or its kind or schema version is not supported.
        OptionError: An entry of the configuration is missing, unknown or invalid.
    """
    config = config if isinstance(config, DossierConfig) else check_dossier_config(config)
    made_on = today or dt.date.today()
    audited_on = config.audit.date
    if audited_on is not None and audited_on > made_on:
        message = f"the audit is dated {audited_on}, and today is {made_on}"
        raise DossierError(
            message, code="audit-date-in-future", location="audit.date", hint="correct the date of the audit"
        )
    if config.proxy is not None and "ll144" in dossiers:
        raise DossierError(
            "this dossier counts people by recorded categories, not by proxies",
            code="proxy-in-ll144",
            location="proxy",
            hint="remove proxy from the configuration",
        )
    if config.proxy is not None and "disparity" not in dossiers:
        raise OptionError(
            f"group probabilities are supported only by the dossier disparity, got {', '.join(dossiers)}",
            location="proxy",
            hint="remove proxy, or compile disparity",
        )
    if config.proxy is not None and is_lazy(frame):
        raise OptionError(
            "group probabilities from names and places require the rows in memory, got a lazy frame",
            location="proxy",
            hint="remove proxy, or read a sample of the rows into memory",
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
        _tabulate_outcome(of, selected[people.assessed], crossings, exclusions, people)
        for of, selected in people.outcomes
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
        thresholds=tuple(finding for run in runs for finding in check_thresholds(run.of, run.four_fifths, config)),
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
    """Compute the rates of groups by outcome, from group probabilities. Empty without a proxy."""
    if config.proxy is None:
        return (), ()
    memberships, tables = read_memberships(frame, config.proxy, location=location)
    assessed = np.flatnonzero(people.assessed)
    assessed_memberships = memberships.at(assessed)
    return tuple(
        OutcomeProxies(of=of, rates=measure_proxies(selected[assessed], assessed_memberships, GroupConfig()))
        for of, selected in people.outcomes
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
    """Compare the scores by each attribute with a declared reference. None without scores or references."""
    if people.scores is None or not config.reference:
        return None
    return tuple(
        compare_scores(table, people.scores, people.assessed)
        for table in crossings
        if len(table.by) == 1 and table.reference is not None
    )


def find_changed_cells(written: DossierResult, frame: Any, *, results: Sequence[Result | Path | str] = ()) -> list[str]:
    """Compile a dossier again from its data, and list all cells that differ, by their path in the JSON.

    Numbers may have a relative difference of 1e-9, because other machines may round differently.

    Args:
        written: Dossier to verify.
        frame: People of the dossier.
        results: Results that the dossier is based on, in the same order.

    Raises:
        OptionError: The results that the dossier is based on are missing.
        DossierError: The people do not fit the configuration.
    """
    if written.evidence and not results:
        names = ", ".join(file.name for file in written.evidence)
        raise OptionError(f"this dossier is based on results: {names}", hint="pass them: `results=[FILE, ...]`")
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
    left, right = ({k: v for k, v in dossier.plain().items() if k not in skipped} for dossier in (written, again))
    return list(_list_differences(left, right, ""))


def _list_differences(left: Any, right: Any, path: str) -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            yield from _list_differences(left.get(key), right.get(key), f"{path}.{key}".removeprefix("."))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from _list_differences(*pair, f"{path}[{number}]")
    elif isinstance(left, float) and isinstance(right, float):
        if not abs(left - right) <= 1e-9 * max(abs(left), abs(right)):
            yield f"{path}: written {left!r}, computed {right!r}"
    elif left != right or type(left) is not type(right):
        yield f"{path}: written {left!r}, computed {right!r}"
