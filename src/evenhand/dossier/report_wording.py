"""Blocks of dossiers: results of other analyses, and comparisons with declared thresholds."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Column, Document, Figure, Heading, Table, TableRow, Text
from evenhand.dossier.evidence import ResultFile
from evenhand.dossier.findings import ThresholdFinding
from evenhand.dossier.result import DossierResult
from evenhand.dossier.table_wording import name_category
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.stats.quantity import Unknown, show_quantity

FINDINGS = {"within": "within the threshold", "beyond": "beyond the threshold", "unknown": "unknown"}


def threshold_blocks(result: DossierResult) -> Iterator[Block]:
    """Yield the comparisons of ratios and differences with their declared thresholds."""
    if not result.thresholds:
        return
    rows = tuple(
        TableRow(
            (
                name_category(finding.category),
                finding.of,
                finding.measure,
                show_quantity(finding.quantity, f"demographic_parity_{finding.measure}"),
                f"at {'least' if finding.measure == 'ratio' else 'most'} {finding.threshold:.10g}",
                _describe_finding(finding),
            )
        )
        for finding in result.thresholds
    )
    names = ("category", "of", "measure", "result", "threshold", "finding")
    yield Heading("Declared thresholds", level=3, anchor="disparity-thresholds")
    yield Table(
        "Ratios to the reference, and differences from its rate, observed, with 95 % intervals",
        tuple(Column(name, numeric=name == "result") for name in names),
        rows,
        usual="observed",
    )


def alternative_blocks(result: DossierResult) -> Iterator[Block]:
    """Yield the documents of all mitigations, searches and refutations."""
    for file in result.evidence:
        title = "Refutation" if isinstance(file.result, RefutationResult) else "Search"
        yield Heading(f"{title} recorded in {file.name}", anchor=f"alternatives-{file.sha256[:8]}")
        yield from _embed(file.result.document())


def evidence_blocks(result: DossierResult) -> Iterator[Block]:
    """Yield the files that the dossier is based on. Empty if there are none."""
    if not result.evidence:
        return
    yield Heading("Underlying results", anchor="evidence")
    columns = tuple(map(Column, ("file", "result", "evenhand version", "SHA-256")))
    yield Table(
        "Files of results, with the first 16 digits of their SHA-256", columns, tuple(map(_list_file, result.evidence))
    )
    yield Text(
        "Observed: counted on people, with an interval for similar people. Estimated: from a random sample of a "
        "population, with an interval. Proved: derived from the model for the whole population, without sampling."
    )


def _list_file(file: ResultFile) -> TableRow:
    result = file.result
    return TableRow((file.name, result.kind, f"{result.evenhand}, seed {result.seed}", file.sha256[:16]))


def _embed(record: Document) -> Iterator[Block]:
    """Yield the blocks of a document without figures, with its headings below those of the dossier."""
    yield Text(f"{record.title}. {record.lead}")
    for block in record.blocks:
        if not isinstance(block, Figure):
            yield Heading(block.text, level=3) if isinstance(block, Heading) else block


def _describe_finding(finding: ThresholdFinding) -> str:
    if isinstance(finding.quantity, Unknown):
        return f"unknown: {finding.quantity.reason}"
    return f"{FINDINGS[finding.finding]}{'; its interval contains the threshold' if finding.straddles else ''}"
