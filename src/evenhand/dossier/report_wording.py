"""Dossiers that rest on results: less discriminatory alternatives, and limits beside the tables."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Column, Document, Figure, Heading, ReportedNumber, Table, TableRow, Text
from evenhand.dossier.evidence import ResultFile, find_frontier
from evenhand.dossier.findings import ThresholdFinding
from evenhand.dossier.result import DossierResult
from evenhand.dossier.table_wording import name_category
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.mitigation.result import MitigationResult
from evenhand.stats.quantity import Unknown, show_quantity

FINDINGS = {"within": "within the threshold", "beyond": "beyond the threshold", "unknown": "unknown"}


def tell_thresholds(result: DossierResult) -> Iterator[Block]:
    """Yield the ratios and differences of the tables beside the declared thresholds."""
    if not result.thresholds:
        return
    rows = tuple(
        TableRow(
            (
                name_category(one.category),
                one.of,
                one.measure,
                _show_measure(one),
                f"at least {one.threshold:.10g}" if one.measure == "ratio" else f"at most {one.threshold:.10g}",
                _word_finding(one),
            )
        )
        for one in result.thresholds
    )
    names = ("category", "of", "measure", "result", "threshold", "finding")
    yield Heading("Beside the declared thresholds", level=3, anchor="disparity-thresholds")
    yield Table(
        "Ratios to the reference, and the reference's rate minus this one: observed; below each its 95 % interval",
        tuple(Column(name, numeric=name == "result") for name in names),
        rows,
        usual="observed",
    )


def tell_alternatives(result: DossierResult) -> Iterator[Block]:
    """Yield every mitigation, search and refutation as it reports itself."""
    for file in result.evidence:
        title = "Refutation" if isinstance(file.result, RefutationResult) else "Search"
        yield Heading(f"{title} recorded in {file.name}", anchor=f"alternatives-{file.sha256[:8]}")
        yield from _tell_record(file.result.document())
        if isinstance(file.result, MitigationResult):
            yield _tell_frontier(file.result)


def list_evidence(result: DossierResult) -> Iterator[Block]:
    """Yield the files that the dossier rests on; nothing where there are none."""
    if not result.evidence:
        return
    yield Heading("Results that this rests on", anchor="evidence")
    columns = tuple(map(Column, ("file", "what", "made by evenhand", "SHA-256")))
    yield Table(
        "Files of results; of each SHA-256 the first 16 digits", columns, tuple(map(_list_file, result.evidence))
    )
    yield Text(
        "Observed: counted on people, with an interval for people like these. Estimated: from a random sample of a "
        "population, with an interval. Proved: follows from the model for the whole population, without sampling."
    )


def _list_file(file: ResultFile) -> TableRow:
    result = file.result
    return TableRow((file.name, result.kind, f"{result.evenhand}, seed {result.seed}", file.sha256[:16]))


def _tell_record(record: Document) -> Iterator[Block]:
    """Yield the blocks of a record, its headings below the dossier's; its drawing stands on its own page."""
    yield Text(f"{record.title}. {record.lead}")
    for block in record.blocks:
        if not isinstance(block, Figure):
            yield Heading(block.text, level=3) if isinstance(block, Heading) else block


def _tell_frontier(result: MitigationResult) -> Table:
    """Build the table of the models that no other model of the search dominates."""
    names = ["the given model", *(one.method for one in result.candidates)]
    placed = {True: "yes", False: "no", None: "unknown"}
    rows = [TableRow((name, placed[best])) for name, best in zip(names, find_frontier(result.candidates), strict=True)]
    caption = (
        "On the frontier: no other model of the search is as good in accuracy and in everything to be reduced, and "
        "better in one of them, as observed"
    )
    return Table(caption, (Column("model"), Column("on the frontier")), tuple(rows))


def _show_measure(finding: ThresholdFinding) -> ReportedNumber:
    return show_quantity(finding.quantity, f"demographic_parity_{finding.measure}")


def _word_finding(finding: ThresholdFinding) -> str:
    if isinstance(finding.quantity, Unknown):
        return f"unknown: {finding.quantity.reason}"
    return f"{FINDINGS[finding.finding]}{'; its interval reaches both sides' if finding.straddles else ''}"
