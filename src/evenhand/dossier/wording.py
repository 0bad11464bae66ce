"""Documents of dossiers: tables, open fields, method and law."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Document, Facts, Heading, Note, Table, TableRow, Text
from evenhand.core.text import format_count, format_percent, list_some
from evenhand.dossier.citations import STALE_DAYS, cite
from evenhand.dossier.outline import OPEN, OUTLINES, list_fields
from evenhand.dossier.report_wording import alternative_blocks, evidence_blocks, threshold_blocks
from evenhand.dossier.result import DossierName, DossierResult, OutcomeTables
from evenhand.dossier.table_wording import (
    comparison_tables,
    name_category,
    name_columns,
    say_by,
    show_decimal,
    show_percent,
    write_plain,
)
from evenhand.dossier.tables import ImpactRatio, ImpactRatios
from evenhand.dossier.trade import ScoreComparisons
from evenhand.groups.wording.groups import proxy_blocks

KINDS = {"selection": "selection rate", "score": "scoring rate", "classes": "selection rate"}

SEEN = {"primary": "the text", "copy": "a verbatim copy", "secondary": "secondary sources", "none": "nothing"}

STATUS = {"empty": "no people", "no-highest": "no ratio: the highest rate is 0"}


def build_document(result: DossierResult, name: DossierName | None = None) -> Document:
    """Build the document of one dossier, or one document of all dossiers."""
    names = (name,) if name is not None else result.dossiers
    system = result.config.system.name or f"system {OPEN}"
    titles = [OUTLINES[dossier].title for dossier in names]
    blocks: list[Block] = list(_opening(result, names))
    for dossier in names:
        blocks += _identify(result, dossier)
        blocks += _report(result, dossier)
        blocks += _explain_method(result, dossier)
    if "alternatives" in names:
        blocks += evidence_blocks(result)
    blocks += _cite_law(result, names)
    return Document(
        title=f"{' and '.join(titles)}: {system}",
        lead=" ".join(OUTLINES[dossier].about for dossier in names),
        blocks=tuple(blocks),
        made=f"Made by evenhand {result.evenhand} on {result.made_on} from {result.data.name}.",
    )


def _opening(result: DossierResult, names: Sequence[DossierName]) -> Iterator[Block]:
    source = "measured by Evenhand, with its method" if "alternatives" in names else "counted from people and outcomes"
    yield Text(
        f"Every number is {source}. This document does not state whether a rule applies to this system, or whether the "
        "system complies with it. It is not legal advice."
    )
    fields = list(dict.fromkeys(field.asks for field in result.open_fields if field.dossier in names))
    if fields:
        entries = format_count(len(fields), "required entry is", "required entries are")
        yield Note(f"Not final: {entries} {OPEN}: {list_some(fields)}.", tone="caution")
    for law in result.citations:
        if set(law.dossiers) & set(names) and law.is_stale(result.made_on):
            days = (result.made_on - law.checked_on).days
            yield Note(
                f"{law.citation} was last checked on {law.checked_on}, {days} days ago (more than {STALE_DAYS}): check "
                "whether it has changed.",
                tone="caution",
            )
    if result.config.audit.date is not None and result.law_date != result.config.audit.date:
        yield Note(f"This dossier applies the law of {result.law_date}, not of the date of the audit.", tone="caution")


def _identify(result: DossierResult, name: DossierName) -> Iterator[Block]:
    yield Heading("System, audit and data", anchor=f"{name}-who")
    entries = [
        (asks[0].upper() + asks[1:], value or (OPEN if required else "-"))
        for _, asks, value, required in list_fields(result.config, name)
    ]
    if name == "ll144" and result.config.audit.date is not None:
        entries.append(("Last day of use based on this audit", str(_one_year_later(result.config.audit.date))))
    yield Facts(tuple(entries))
    yield Heading("People", anchor=f"{name}-people")
    counted = [
        ("People in the data", f"{result.people:,}"),
        ("Without an outcome", f"{result.no_outcome:,} (in no table)"),
        ("Assessed", f"{result.assessed:,}"),
    ]
    counted += [
        (f"Unknown {say_by(table.by)}", f"{table.unknown:,} (not in the table {say_by(table.by)})")
        for table in result.runs[0].ll144
    ]
    counted.append(("Unknown in any attribute", f"{result.unknown_any:,}"))
    counted += _outcome_words(result)
    if result.median is not None:
        counted.append(("Median score", f"{result.median:.10g} (of all scores)"))
    yield Facts(tuple(counted))


def _outcome_words(result: DossierResult) -> Iterator[tuple[str, str]]:
    """Yield the values of the outcome column by meaning, each with its number of people."""
    words = result.outcome_words
    if words is None:
        return
    meanings = {"selected": words.selected, "rejected": words.rejected, "no outcome": words.unknown}
    for meaning, counts in meanings.items():
        if counts:
            listed = "; ".join(f"{word!r}: {n:,}" for word, n in counts.items())
            yield f"Counted as {meaning} (column {result.config.outcome.column!r})", listed


def _report(result: DossierResult, name: DossierName) -> Iterator[Block]:
    if name == "alternatives":
        yield from alternative_blocks(result)
        return
    for run in result.runs:
        outcome = f"assigned to {run.of}" if result.config.outcome.kind == "classes" else run.of
        yield Heading(f"People {outcome}", anchor=f"{name}-{run.of}".replace(" ", "-"))
        if name == "ll144":
            yield from (_impact_table(table, result.config.outcome.kind) for table in run.ll144)
            yield from _name_exclusions(run)
        else:
            for table in run.four_fifths:
                yield from comparison_tables(table, name)
            yield from _strata_tables(run)
    if name == "disparity":
        yield from threshold_blocks(result)
        yield from _proxy_blocks(result)
    if name == "disparity" and result.trade:
        yield Heading("Scores", anchor="disparity-scores")
        for scores in result.trade:
            yield from _score_tables(scores)


def _proxy_blocks(result: DossierResult) -> Iterator[Block]:
    """Yield the rates of groups, from group probabilities, their bounds, and the effect of selection."""
    for proxies in result.proxies:
        yield Heading(f"People {proxies.of}, by group probability", anchor=f"proxies-{proxies.of}".replace(" ", "-"))
        yield from proxy_blocks((proxies.rates,), "", level=3)
    if result.proxy_tables:
        items = tuple(f"{table.column}: {table.file}, SHA-256 {table.sha256[:16]}" for table in result.proxy_tables)
        yield Text("Columns, and the tables of probabilities supplied by the user:", items)


def _impact_table(table: ImpactRatios, kind: str) -> Table:
    above = kind == "score"
    columns = (
        Column("category"),
        Column("people", numeric=True),
        Column("share", numeric=True),
        Column("above the median" if above else "selected", numeric=True),
        Column(KINDS[kind], numeric=True),
        Column("impact ratio", numeric=True),
        Column("remark"),
    )
    rows = tuple(
        TableRow(
            (
                name_category(row.category),
                row.n,
                show_percent(row.share),
                row.k,
                show_percent(row.rate),
                show_decimal(row.ratio),
                _remark(row),
            )
        )
        for row in table.rows
    )
    caption = f"{KINDS[kind].capitalize()}s and impact ratios {say_by(table.by)}: {table.counted:,} people, observed"
    return Table(caption, columns, rows, usual="observed")


def _remark(row: ImpactRatio) -> str:
    if row.status == "excluded":
        return f"below 2 %, excluded: {row.why}"
    return STATUS.get(row.status, "below 2 % of the people" if row.below_2_percent else "")


def _name_exclusions(run: OutcomeTables) -> Iterator[Block]:
    items = tuple(
        f"{name_category(row.category)} {say_by(table.by)}: {row.n:,} of {table.counted:,} people. Reason: {row.why}"
        for table in run.ll144
        for row in table.rows
        if row.status == "excluded"
    )
    if items:
        yield Text("Categories below 2 % that the auditor excluded from the ratios:", items)


def _strata_tables(run: OutcomeTables) -> Iterator[Block]:
    for table in run.mantel_haenszel or ():
        if not table.rows or table.reference is None:
            continue
        columns = ("strata", "informative", "odds ratio", "95 % interval", "rate ratio", "z", "p", "homogeneity p")
        rows = tuple(
            TableRow(
                (
                    name_category(row.category),
                    row.strata,
                    row.informative,
                    show_decimal(row.odds_ratio),
                    "-" if row.odds_low is None else f"{write_plain(row.odds_low)} to {write_plain(row.odds_high)}",
                    show_decimal(row.rate_ratio),
                    write_plain(row.z),
                    write_plain(row.p),
                    write_plain(row.homogeneity_p),
                )
            )
            for row in table.rows
        )
        reference = name_category(table.reference)
        caption = f"Within strata, {say_by(table.by)}, compared with {reference} (Mantel-Haenszel), observed"
        yield Table(caption, name_columns(columns), rows, usual="observed")


def _score_tables(scores: ScoreComparisons) -> Iterator[Block]:
    rows = tuple(
        TableRow((name_category(row.category), row.n, write_plain(row.mean), show_decimal(row.smd)))
        for row in scores.rows
    )
    caption = f"Mean scores {say_by(scores.by)}, compared with {name_category(scores.reference)}, observed"
    yield Table(caption, name_columns(("people", "mean", "SMD")), rows, usual="observed")
    for cut in scores.quantiles:
        rows = tuple(TableRow((name_category(row.category), row.k, show_decimal(row.ratio))) for row in cut.rows)
        caption = (
            f"Highest {format_percent(cut.q)} of the scores {say_by(scores.by)}: {cut.cut:.10g} or more, "
            f"{format_count(cut.selected, 'person', 'people')}, observed"
        )
        yield Table(caption, name_columns(("selected", "ratio")), rows, usual="observed")


def _explain_method(result: DossierResult, name: DossierName) -> Iterator[Block]:
    if name == "alternatives":
        return
    yield Heading("Method", anchor=f"{name}-method")
    common = [
        "Unknown categories are excluded from each table separately: people with one unknown attribute are included in "
        "the tables of the others. People without an outcome are counted above and excluded from all tables.",
        "Each declared category has a row, even if it is empty. There is no minimum size.",
        "Ratios are computed from counts, not from rounded rates, and thresholds are compared in integers.",
    ]
    if result.config.outcome.kind == "score":
        common.append(
            "A score counts if it is strictly above the median of all scores, including those of people with an "
            "unknown category. The median of an even number of scores is the mean of the middle two."
        )
    if name == "ll144":
        yield Text(
            f"By {cite('nyc-rules')}: rate = people selected (or above the median, or in the class) / people; impact "
            "ratio = rate / highest rate of the table. Conventions:",
            (
                *common,
                "All categories with the highest rate have a ratio of 1. If the highest rate is 0, no ratio exists.",
                "A category may be excluded from the ratios only with a reason and if it has less than 2 % of the "
                "people in the table. Its number and rate are shown, but its rate is not used as the highest.",
            ),
        )
        return
    if name == "ugesp":
        yield Text(
            f"{cite('ugesp')}: a selection rate below four fifths (4/5) of the highest is generally regarded as "
            "evidence of adverse impact; smaller differences may also be evidence, and larger ones may not be if "
            "numbers are small."
        )
    yield Text("", (*common, *_explain_comparisons(result, name)))


def _explain_comparisons(result: DossierResult, name: DossierName) -> Iterator[str]:
    yield (
        "Reference: declared category, or the highest rate (ties: more people, then the order). Fisher's test is "
        "two-sided: it includes all tables that are at most as likely as the observed one. z pools both rates. "
        "p-values are adjusted by Holm's method over the comparisons shown for a declared reference, otherwise over "
        "all pairs; * means below 0.05."
    )
    if name == "ugesp":
        yield (
            "Shortfall: number of selections missing for the pooled rate. A swap moves one selection from the "
            "reference to the category. No rule requires swaps; they show how much a finding depends on single people."
        )
    if name == "disparity":
        yield (
            "AIR: rate / rate of the reference. SMD: difference of mean scores / standard deviation of all scores in "
            "the table (a convention of this document). Cut-offs of quantiles are computed from all scores; ties are "
            "included."
        )
    if result.config.strata is not None:
        yield (
            f"Strata: {result.config.strata}. Strata without the category or the reference, or with equal decisions "
            "for all people, are not informative for the odds ratio, its interval (Robins, Breslow and Greenland) and "
            "its test. Homogeneity: Breslow and Day's test with Tarone's correction."
        )


def _cite_law(result: DossierResult, names: Sequence[DossierName]) -> Iterator[Block]:
    laws = [law for law in result.citations if set(law.dossiers) & set(names)]
    if not laws:
        return
    yield Heading("Law", anchor="law")
    columns = tuple(map(Column, ("citation", f"status on {result.law_date}", "valid", "source", "read", "checked on")))
    rows = tuple(
        TableRow(
            (
                law.citation,
                law.status,
                _span(law.valid_from, law.valid_to),
                law.source,
                SEEN[law.seen],
                str(law.checked_on),
            )
        )
        for law in laws
    )
    yield Table("Citations, and the text that was read", columns, rows)


def _span(first: dt.date | None, last: dt.date | None) -> str:
    if first is None and last is None:
        return "-"
    return f"{first or ''} to {last}".strip() if last is not None else f"from {first}"


def _one_year_later(day: dt.date) -> dt.date:
    try:
        return day.replace(year=day.year + 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year + 1, day=28)
