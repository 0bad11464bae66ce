"""A dossier: the tables, what people must still fill, and the law by which it was made."""

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
from evenhand.dossier.evidence import ResultFile, find_frontier
from evenhand.dossier.findings import TableIntervals, ThresholdFinding
from evenhand.dossier.membership import OutcomeProxies, ProxyTable
from evenhand.dossier.people import OutcomeWords
from evenhand.dossier.tables import ImpactRatios, RateComparisons, StratifiedComparisons
from evenhand.dossier.trade import ScoreComparisons
from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.mitigation.result import MitigationResult

if TYPE_CHECKING:
    import pandas as pd

DossierName = Literal["ll144", "ugesp", "disparity", "alternatives"]


class OutcomeTables(ResultPart):
    """The tables of one outcome, or of one class.

    Attributes:
        of: what is counted: ``selected``, ``above the median``, or the class.
        ll144: rates and impact ratios; four_fifths: every category against the reference.
        mantel_haenszel: the same within strata; only there if strata are declared.
    """

    of: str
    ll144: tuple[ImpactRatios, ...]
    four_fifths: tuple[RateComparisons, ...]
    mantel_haenszel: tuple[StratifiedComparisons, ...] | None = Field(None, exclude_if=lambda given: given is None)


class OpenField(ResultPart):
    """A field that a person must fill: its place in the configuration, what it is, and for which dossier."""

    dossier: DossierName
    field: str
    asks: str


class DataFile(ResultPart):
    """The data as it was read: its name, and the SHA-256 of the file if it was one."""

    name: str
    sha256: str | None = None


class DossierResult(Result):
    """The tables that auditors and regulators ask for, with what they rest on.

    Equal input gives equal JSON: ``seconds`` is not measured, and the day on which it was made is part of the input.

    Attributes:
        people: rows; no_outcome: those without an outcome, who are in no table; assessed: the others.
        outcome_words: the meaning of each word of the outcome column, with its number of people; None in results of
            earlier versions.
        unknown_any: assessed people with at least one unknown category.
        median: of the scores of everybody who has one.
        runs: the tables, per outcome or class; trade: those of scores, only with scores and declared references.
        intervals: of rates and impact ratios, which the documents by Local Law 144 do not print.
        thresholds: ratios and differences beside the declared limits.
        proxies, proxy_tables: rates of groups that are known by probability alone, and the tables that they rest on.
        evidence: results of other analyses that the dossiers rest on.
        dossiers: which documents were asked for; config: what people said; open_fields: what they did not say.
        citations: the law on ``law_date``, which is the day of the audit unless another was asked for.
        data: what was read; made_on: the day on which the dossier was made.
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
    trade: tuple[ScoreComparisons, ...] | None = Field(None, exclude_if=lambda given: given is None)
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
        """Return all dossiers that were asked for as one document."""
        return self._write_document("evenhand.dossier.wording")

    def documents(self) -> dict[DossierName, Document]:
        """Return each dossier as a document of its own."""
        return {name: self._write_document("evenhand.dossier.wording", name) for name in self.dossiers}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return every table of the dossiers that were asked for as a frame, by a name such as ``ll144-sex``."""
        import pandas as pd

        found: dict[str, pd.DataFrame] = {}
        for name, rows in self._rows():
            frame = pd.DataFrame(rows)
            found[name] = frame if name not in found else pd.concat([found[name], frame], ignore_index=True)
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return impact ratios of all tables as one frame."""
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
                for one in run.ll144:
                    yield f"ll144-{'-'.join(one.by)}", [{"of": run.of, **_flat(row)} for row in one.rows]
            if {"ugesp", "disparity"} & set(self.dossiers):
                for each in run.four_fifths:
                    reference = " x ".join(each.reference or ())
                    yield (
                        f"four-fifths-{'-'.join(each.by)}",
                        [{"of": run.of, "reference": reference, **_flat(row)} for row in each.rows],
                    )
                for within in run.mantel_haenszel or ():
                    reference = " x ".join(within.reference or ())
                    yield (
                        f"mantel-haenszel-{'-'.join(within.by)}",
                        [{"of": run.of, "reference": reference, **_flat(row)} for row in within.rows],
                    )
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
            yield "thresholds", [_flat(one) for one in self.thresholds]
        for found in self.proxies:
            yield "proxies", [{"of": found.of, **_flat(rate)} for rate in found.rates.rates]
        for file in self.evidence:
            if isinstance(file.result, MitigationResult):
                candidates = file.result.candidates
                yield (
                    "alternatives",
                    [
                        {"file": file.name, "method": one.method, "on_frontier": on_frontier, **_flat(line)}
                        for one, on_frontier in zip(candidates, find_frontier(candidates)[1:], strict=True)
                        for line in one.lines
                    ],
                )
            if isinstance(file.result, AlternativesResult):
                rows = file.result.to_frame().to_dict("records")
                yield (
                    "candidates",
                    [{"file": file.name} | {str(key): value for key, value in row.items()} for row in rows],
                )


QUANTITY = ("kind", "value", "low", "high", "confidence", "n", "reason")
"""Fields of a quantity that stand in columns of a table."""


def _flat(row: BaseModel) -> dict[str, Any]:
    """Return a row for a table: a category as one text, a quantity as several columns."""
    flat: dict[str, Any] = {}
    for name, value in row.model_dump().items():
        if isinstance(value, dict) and "kind" in value:
            flat |= {f"{name}_{part}": value.get(part) for part in QUANTITY}
        elif isinstance(value, dict):
            flat |= {f"{name}_{part}": one for part, one in value.items()}
        else:
            flat[name] = " x ".join(value) if isinstance(value, tuple) else value
    return flat
