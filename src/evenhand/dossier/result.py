"""Result of a dossier: tables, open fields and applicable law."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import join_names
from evenhand.dossier.citations import Citation
from evenhand.dossier.config import DossierConfig
from evenhand.dossier.evidence import ResultFile
from evenhand.dossier.findings import TableIntervals, ThresholdFinding
from evenhand.dossier.membership import OutcomeProxies, ProxyTable
from evenhand.dossier.people import OutcomeWords
from evenhand.dossier.tables import ImpactRatios, RateComparisons, StratifiedComparisons
from evenhand.dossier.trade import ScoreComparisons
from evenhand.groups.breakdown import Bounds
from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.mitigation.result import MitigationResult

if TYPE_CHECKING:
    import pandas as pd

DossierName = Literal["ll144", "ugesp", "disparity", "alternatives"]


class OutcomeTables(ResultPart):
    """Tables of an outcome or a class.

    Attributes:
        of: Outcome: ``selected``, ``above the median``, or the class.
        ll144: Rates and impact ratios.
        four_fifths: Comparisons of all categories with the reference.
        mantel_haenszel: Comparisons within strata. None without strata.
    """

    of: str
    ll144: tuple[ImpactRatios, ...]
    four_fifths: tuple[RateComparisons, ...]
    mantel_haenszel: tuple[StratifiedComparisons, ...] | None = Field(None, exclude_if=lambda tables: tables is None)


class OpenField(ResultPart):
    """Field that a person must fill in: dossier, path in the configuration, and description."""

    dossier: DossierName
    field: str
    asks: str


class DataFile(ResultPart):
    """Name of the data, and SHA-256 of the file. None for data in memory."""

    name: str
    sha256: str | None = None


class DossierResult(Result):
    """Tables for auditors and regulators.

    Equal inputs give equal JSON: ``seconds`` is not measured, and the date of the dossier is an input.

    Attributes:
        people: Number of people.
        no_outcome: Number of people without an outcome, who are in no table.
        assessed: Number of people with an outcome.
        outcome_words: Meaning of each value of the outcome column. None in results of earlier versions.
        unknown_any: Number of assessed people with an unknown category.
        median: Median of all scores. None without scores.
        runs: Tables of each outcome or class.
        trade: Tables of scores. None without scores or declared references.
        intervals: Intervals of rates and impact ratios. Documents for Local Law 144 do not contain them.
        thresholds: Comparisons of ratios and differences with declared thresholds.
        proxies, proxy_tables: Rates of groups, from group probabilities, and the tables of these probabilities.
        evidence: Results of other analyses that the dossiers are based on.
        dossiers: Compiled documents.
        config: Configuration.
        open_fields: Required fields that are empty.
        citations: Law on ``law_date``.
        law_date: Date that determines the law. Default: date of the audit.
        made_on: Date of the dossier.
        data: Name and fingerprint of the data.
    """

    kind: Literal["dossier"] = "dossier"
    seed: int = 0
    seconds: float = 0.0
    people: int
    no_outcome: int
    assessed: int
    outcome_words: OutcomeWords | None = Field(None, exclude_if=lambda words: words is None)
    unknown_any: int
    median: float | None
    runs: tuple[OutcomeTables, ...]
    trade: tuple[ScoreComparisons, ...] | None = Field(None, exclude_if=lambda tables: tables is None)
    intervals: tuple[TableIntervals, ...] = ()
    thresholds: tuple[ThresholdFinding, ...] = ()
    proxies: tuple[OutcomeProxies, ...] = ()
    proxy_tables: tuple[ProxyTable, ...] = ()
    evidence: tuple[ResultFile, ...] = ()
    dossiers: tuple[DossierName, ...]
    config: DossierConfig
    open_fields: tuple[OpenField, ...]
    citations: tuple[Citation, ...]
    law_date: dt.date
    made_on: dt.date
    data: DataFile

    def document(self) -> Document:
        """Build one document with all dossiers."""
        return self._write_document("evenhand.dossier.wording")

    def documents(self) -> dict[DossierName, Document]:
        """Build a separate document for each dossier."""
        return {name: self._write_document("evenhand.dossier.wording", name) for name in self.dossiers}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Convert the tables of all dossiers to data frames, by name, such as ``ll144-sex``."""
        import pandas as pd

        rows: dict[str, list[dict[str, Any]]] = {}
        for name, part in self._rows():
            rows.setdefault(name, []).extend(part)
        return {name: pd.DataFrame(part) for name, part in rows.items()}

    def to_frame(self) -> pd.DataFrame:
        """Convert the impact ratios of all tables to a data frame."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"of": run.of, "by": join_names(table.by), **_flat(row)}
                for run in self.runs
                for table in run.ll144
                for row in table.rows
            ]
        )

    def _rows(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for run in self.runs:
            if "ll144" in self.dossiers:
                for ratios in run.ll144:
                    yield f"ll144-{'-'.join(ratios.by)}", [{"of": run.of, **_flat(row)} for row in ratios.rows]
            if {"ugesp", "disparity"} & set(self.dossiers):
                for name, tables in (("four-fifths", run.four_fifths), ("mantel-haenszel", run.mantel_haenszel or ())):
                    for table in tables:
                        about = {"of": run.of, "reference": " x ".join(table.reference or ())}
                        yield f"{name}-{'-'.join(table.by)}", [{**about, **_flat(row)} for row in table.rows]
        for scores in self.trade or () if "disparity" in self.dossiers else ():
            yield f"scores-{'-'.join(scores.by)}", [_flat(row) for row in scores.rows]
            yield (
                f"quantiles-{'-'.join(scores.by)}",
                [
                    {"q": cut.q, "cut": cut.cut, "selected": cut.selected, **_flat(row)}
                    for cut in scores.quantiles
                    for row in cut.rows
                ],
            )
        if self.thresholds:
            yield "thresholds", list(map(_flat, self.thresholds))
        for proxies in self.proxies:
            yield (
                "proxies",
                [
                    {
                        "of": proxies.of,
                        "group": group.label,
                        "expected_people": group.size,
                        "effective_size": group.effective_size,
                        "small": group.small,
                        **{f"estimate_{part}": getattr(rate, part, None) for part in QUANTITY},
                        **bounds._asdict(),
                    }
                    for group in proxies.rates.groups
                    for rate, bounds in [(group.metrics["selection_rate"], group.bounds or Bounds(0.0, 1.0))]
                ],
            )
        for file in self.evidence:
            if isinstance(file.result, MitigationResult):
                yield (
                    "alternatives",
                    [
                        {"file": file.name, "method": candidate.method, **_flat(line)}
                        for candidate in file.result.candidates
                        for line in candidate.lines
                    ],
                )
            if isinstance(file.result, AlternativesResult):
                rows = file.result.to_frame().to_dict("records")
                yield (
                    "candidates",
                    [{"file": file.name} | {str(key): value for key, value in row.items()} for row in rows],
                )


QUANTITY = ("kind", "value", "low", "high", "confidence", "n", "reason")
"""Fields of a quantity that are columns of a data frame."""


def _flat(row: BaseModel) -> dict[str, Any]:
    """Convert a row of a table to columns: one for a category, several for a quantity."""
    flat: dict[str, Any] = {}
    for name, value in row.model_dump().items():
        if isinstance(value, dict) and "kind" in value:
            flat |= {f"{name}_{part}": value.get(part) for part in QUANTITY}
        elif isinstance(value, dict):
            flat |= {f"{name}_{part}": content for part, content in value.items()}
        else:
            flat[name] = " x ".join(value) if isinstance(value, tuple) else value
    return flat
