"""Dossiers in words: the tables as the rules ask for them, what is open, how it was counted, and by which law."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Document, Facts, Heading, Note, Table, TableRow, Text
from evenhand.core.text import format_count, format_percent, list_some
from evenhand.dossier.citations import STALE_DAYS, cite
from evenhand.dossier.outline import OPEN, OUTLINES, list_fields
from evenhand.dossier.report_wording import list_evidence, tell_alternatives, tell_thresholds
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
from evenhand.groups.wording.proxies import proxy_blocks

KINDS = {"selection": "selection rate", "score": "scoring rate", "classes": "selection rate"}

SEEN = {"primary": "the text", "copy": "a verbatim copy", "secondary": "what others write", "none": "nothing"}

STATUS = {"empty": "no people", "no-highest": "no ratio: the highest rate is 0"}


def build_document(result: DossierResult, name: DossierName | None = None) -> Document:
    """Return one dossier as a document, or all that were asked for in one."""
    names = (name,) if name is not None else result.dossiers
    system = result.config.system.name or f"system {OPEN}"
    titles = [OUTLINES[one].title for one in names]
    blocks: list[Block] = list(_opening(result, names))
    for one in names:
        blocks += _identify(result, one)
        blocks += _report(result, one)
        blocks += _explain_method(result, one)
    if "alternatives" in names:
        blocks += list_evidence(result)
    blocks += _cite_law(result, names)
    return Document(
        title=f"{' and '.join(titles)}: {system}",
        lead=" ".join(OUTLINES[one].about for one in names),
        blocks=tuple(blocks),
        made=f"Made by evenhand {result.evenhand} on {result.made_on} from {result.data.name}.",
        readings=result.readings,
    )


def _opening(result: DossierResult, names: Sequence[DossierName]) -> Iterator[Block]:
    source = "by Evenhand, and says how it came about" if "alternatives" in names else "from people and outcomes"
    counted = "measured" if "alternatives" in names else "counted"
    yield Text(
        f"Every number is {counted} {source}. Whether a rule applies to this system, and whether it is complied with, "
        "this document does not say; it is not legal advice."
    )
    fields = list(dict.fromkeys(one.asks for one in result.open_fields if one.dossier in names))
    if fields:
        entries = format_count(len(fields), "required entry is", "required entries are")
        yield Note(f"Not final: {entries} {OPEN}: {list_some(fields)}.", tone="caution")
    for one in result.citations:
        if set(one.dossiers) & set(names) and one.is_stale(result.made_on):
            days = (result.made_on - one.checked_on).days
            yield Note(
                f"{one.citation} was last checked on {one.checked_on}, {days} days ago (more than {STALE_DAYS}): check "
                "whether it still reads so.",
                tone="caution",
            )
    if result.config.audit.date is not None and result.law_date != result.config.audit.date:
        yield Note(f"Made by the law of {result.law_date}, not by that of the day of the audit.", tone="caution")


def _identify(result: DossierResult, name: DossierName) -> Iterator[Block]:
    yield Heading("Who, when, and which data", anchor=f"{name}-who")
    entries = [
        (asks[0].upper() + asks[1:], said or (OPEN if required else "-"))
        for _, asks, said, required in list_fields(result.config, name)
    ]
    if name == "ll144" and result.config.audit.date is not None:
        entries.append(("Last day of use by this audit", str(_one_year_later(result.config.audit.date))))
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
        counted.append(("Median score", f"{result.median:.10g} (of everybody with a score)"))
    yield Facts(tuple(counted))


def _outcome_words(result: DossierResult) -> Iterator[tuple[str, str]]:
    """Yield the words of the outcome column by meaning, each with its number of people."""
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
        yield from tell_alternatives(result)
        return
    for run in result.runs:
        said = f"assigned to {run.of}" if result.config.outcome.kind == "classes" else run.of
        yield Heading(f"People {said}", anchor=f"{name}-{run.of}".replace(" ", "-"))
        if name == "ll144":
            yield from (_impact_table(table, result.config.outcome.kind) for table in run.ll144)
            yield from _name_exclusions(run)
        else:
            for table in run.four_fifths:
                yield from comparison_tables(table, name)
            yield from _strata_tables(run)
    if name == "disparity":
        yield from tell_thresholds(result)
        yield from _proxy_blocks(result)
    if name == "disparity" and result.trade:
        yield Heading("Scores", anchor="disparity-scores")
        for scores in result.trade:
            yield from _score_tables(scores)


def _proxy_blocks(result: DossierResult) -> Iterator[Block]:
    """Yield the rates of groups known by probability, never without bounds and what a difference would do."""
    for one in result.proxies:
        yield Heading(
            f"People {one.of}, groups known by probability alone", anchor=f"proxies-{one.of}".replace(" ", "-")
        )
        yield from proxy_blocks((one.rates,), "", level=3)
    if result.proxy_tables:
        items = tuple(f"{one.column}: {one.file}, SHA-256 {one.sha256[:16]}" for one in result.proxy_tables)
        yield Text("Tables of probabilities, given by the user, and the columns that they are looked up by:", items)


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
        caption = (
            f"Within strata, {say_by(table.by)}, against {name_category(table.reference)} (Mantel-Haenszel), observed"
        )
        yield Table(caption, name_columns(columns), rows, usual="observed")


def _score_tables(scores: ScoreComparisons) -> Iterator[Block]:
    rows = tuple(
        TableRow((name_category(row.category), row.n, write_plain(row.mean), show_decimal(row.smd)))
        for row in scores.rows
    )
    caption = f"Mean scores {say_by(scores.by)}, against {name_category(scores.reference)}, observed"
    yield Table(caption, name_columns(("people", "mean", "SMD")), rows, usual="observed")
    for cut in scores.quantiles:
        rows = tuple(TableRow((name_category(row.category), row.k, show_decimal(row.ratio))) for row in cut.rows)
        caption = (
            f"The best {format_percent(cut.q)} {say_by(scores.by)}: scores of {cut.cut:.10g} or more, "
            f"{format_count(cut.selected, 'person', 'people')}, observed"
        )
        yield Table(caption, name_columns(("selected", "ratio")), rows, usual="observed")


def _explain_method(result: DossierResult, name: DossierName) -> Iterator[Block]:
    if name == "alternatives":
        return
    yield Heading("How it was counted", anchor=f"{name}-method")
    common = [
        "Whether a category is unknown is decided for each table: who lacks one attribute stays in the tables of the "
        "others. People without an outcome are counted above and are in no table.",
        "Every declared category has a row, with or without people. There is no minimum size.",
        "Ratios are made from counts, not from rounded rates, and limits are compared in whole numbers.",
    ]
    if result.config.outcome.kind == "score":
        common.append(
            "A score counts if it is strictly above the median of everybody with a score, people of unknown category "
            "included; of an even number the median is the mean of the middle two."
        )
    if name == "ll144":
        yield Text(
            f"By {cite('nyc-rules')}: rate = people selected (or above the median, or in the class) / people; impact "
            "ratio = rate / highest rate of the table. Where the rule leaves room:",
            (
                *common,
                "The highest is the highest rate; those that tie for it all have a ratio of 1. If it is 0 there is no "
                "ratio.",
                "A category may be left out of the ratios only if it is strictly below 2 % of the people counted in "
                "that table, and with a reason; its number and rate stay, and it is not the highest.",
            ),
        )
        return
    if name == "ugesp":
        yield Text(
            f"{cite('ugesp')}: a selection rate below four fifths (4/5) of the highest is generally regarded as "
            "evidence of adverse impact; smaller differences may be, too, and larger ones need not be where numbers "
            "are small."
        )
    yield Text("", (*common, *_explain_comparisons(result, name)))


def _explain_comparisons(result: DossierResult, name: DossierName) -> Iterator[str]:
    yield (
        "Reference: the declared category, else the highest rate (ties: more people, then the order). Fisher's test is "
        "two-sided: the tables not likelier than the one seen. z pools both rates; p-values are adjusted by Holm over "
        "all pairs if the data picked the reference, else over the comparisons shown; * is below 0.05."
    )
    if name == "ugesp":
        yield (
            "Shortfall: selections missing to the rate of both together. A swap is one selection passed from the "
            "reference to the category. No rule names swaps; they show how much a finding rests on single people."
        )
    if name == "disparity":
        yield (
            "AIR: rate / reference's rate. SMD: difference of mean scores / standard deviation of all in the table (a "
            "convention of this document). A quantile is cut at a score; everybody with a score counts, and who ties "
            "with the last is in."
        )
    if result.config.strata is not None:
        yield (
            f"Strata: {result.config.strata}. Those that lack a side, or where all are decided alike, are not "
            "informative for the odds ratio, its interval (Robins, Breslow and Greenland) and its test; homogeneity is "
            "Breslow and Day's test as Tarone corrects it."
        )


def _cite_law(result: DossierResult, names: Sequence[DossierName]) -> Iterator[Block]:
    found = [one for one in result.citations if set(one.dossiers) & set(names)]
    if not found:
        return
    yield Heading("Law", anchor="law")
    columns = tuple(map(Column, ("citation", f"status on {result.law_date}", "valid", "source", "read", "checked on")))
    rows = tuple(
        TableRow(
            (
                one.citation,
                one.status,
                _span(one.valid_from, one.valid_to),
                one.source,
                SEEN[one.seen],
                str(one.checked_on),
            )
        )
        for one in found
    )
    yield Table("What this document cites, and what was read of it", columns, rows)


def _span(first: dt.date | None, last: dt.date | None) -> str:
    if first is None and last is None:
        return "-"
    return f"{first or ''} to {last}".strip() if last is not None else f"from {first}"


def _one_year_later(day: dt.date) -> dt.date:
    try:
        return day.replace(year=day.year + 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year + 1, day=28)
