"""A reproduction in words: the paper's tables, its figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evenhand.core import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.reproduce.shields import published, tables
from evenhand.reproduce.shields.environments import TRAINED_ON
from evenhand.reproduce.shields.record import FINITE, PERIODIC, ReproductionRecord
from evenhand.reproduce.shields.tables import LONG, NONE, PROPERTIES, SHORT, shield_label
from evenhand.stats import Quantity, Unknown
from evenhand.text import format_count


def build_document(found: ReproductionRecord) -> Document:
    """Return all tables, published figures beside ours."""
    settings = found.settings
    names = [name for name in settings.classifiers if name not in found.left_out]
    runs = sum(cell.runs() for cell in found.cells)
    thresholds = "threshold" if len(settings.kappas) == 1 else "thresholds"
    blocks: list[Block] = [Note(said, "caution") for said in describe_left_out(found.left_out)]
    if found.interrupted:
        complete = f"{len(found.cells):,} of {found.wanted:,} settings were complete before"
        blocks.append(Note(f"Interrupted: {complete}.", "caution"))
    blocks += [
        Text(items=tuple(describe_outcome(found)), role="finding"),
        Text(
            "All figures are estimated by simulation, unless they are called published. Whether a run is fair is "
            "decided in whole numbers."
        ),
        *_bounded_blocks(found),
        *_periodic_blocks(found),
        *_choice_blocks(found),
        *_people_blocks(found),
        Heading("How it was done", anchor="method", detail=True),
        _method_facts(found),
    ]
    return Document(
        "Fairness Shields, run again",
        f"The experiments of {published.PAPER} ({published.WHERE}): {'; '.join(found.environments)}; classifiers "
        f"{', '.join(names)}; {thresholds} {', '.join(settings.kappas)}. "
        f"{runs:,} runs in {format_count(len(found.cells), 'setting', 'settings')}.",
        tuple(blocks),
        brand="Evenhand reproduce",
        made=found.provenance,
    )


def describe_left_out(reasons: Mapping[str, str]) -> list[str]:
    """Return which classifiers are missing, and why.

    >>> describe_left_out({"HSIC": "no torch", "PR": "no torch"})
    ['Left out: HSIC, PR: no torch']
    """
    return [
        f"Left out: {', '.join(name for name, own in reasons.items() if own == why)}: {why}"
        for why in dict.fromkeys(reasons.values())
    ]


def describe_outcome(found: ReproductionRecord) -> list[str]:
    """Return what came out, in a sentence each."""
    lines = []
    rows = {(row.property, row.shield): row for row in tables.bias_rows(found)}
    for name in PROPERTIES:
        if (name, FINITE) not in rows:
            continue
        alone, shielded = rows[name, NONE], rows[name, FINITE]
        theirs = published.BIAS[name, NONE]
        lines.append(
            f"{LONG[name].capitalize()}, bounded horizon: {100 * alone.above / alone.runs:.1f} % of runs end "
            f"unfair without a shield (published {theirs.above:.1f} %, over five classifiers), {shielded.above} of "
            f"{shielded.runs:,} with FinHzn."
        )
    for name in PROPERTIES:
        own = [row for row in tables.rate_rows(found) if row.property == name]
        shares = [f"{shield_label(row.shield)} {100 * row.fair / row.runs:.1f} %" for row in own]
        if shares:
            lines.append(f"{LONG[name].capitalize()}, fair at the end of every period: {', '.join(shares)}.")
    return lines


def beside_published(own: str, theirs: float | None, digits: int = 2) -> str:
    """Return a figure with the published one in brackets, where there is one."""
    return own if theirs is None else f"{own} ({theirs:.{digits}f})"


def numeric_columns(names: Sequence[str]) -> Iterator[Column]:
    """Yield columns of numbers."""
    return (Column(name, numeric=True) for name in names)


def _share(quantity: Quantity | None) -> Cell:
    if quantity is None:
        return "none"
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    low, high = getattr(quantity, "low", None), getattr(quantity, "high", None)
    ends = "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f} %"
    return ReportedNumber(f"{100 * quantity.value:.1f} %", quantity.value, quantity.kind, low, high, ends)


def _published_share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} %"


def _bounded_blocks(found: ReproductionRecord) -> Iterator[Block]:
    horizons = " or ".join(f"{count} decisions ({SHORT[name]})" for name, count in found.settings.horizons.items())
    yield Heading("Bounded horizon", anchor="bounded")
    yield Text(
        f"One run is {horizons}. FinHzn must be fair at its end in every run; the bias is divided by the threshold, so "
        "that a run is fair up to 1."
    )
    yield Figure(
        "reproduced bias",
        "Where runs end: the bias divided by the threshold, all environments and thresholds together, without a shield "
        "and with FinHzn. To the right of the line a run is not fair.",
        found,
    )
    rows = []
    for row in tables.bias_rows(found):
        known, whose = row.published, f"{SHORT[row.property]}, {shield_label(row.shield)}"
        cells = [
            beside_published(f"{getattr(row, name):.2f}", None if known is None else getattr(known, name))
            for name in ("lower", "median", "upper", "mean", "deviation")
        ]
        theirs = _published_share(None if known is None else known.above)
        rows.append(TableRow((whose, *cells, _share(row.unfair), theirs, row.runs)))
    yield Table(
        "Bias at the end divided by the threshold, over all runs, estimated; published figures "
        f"({published.BIAS_PLACE}, five classifiers) in brackets",
        (
            Column("property, shield"),
            *numeric_columns(("25 %", "median", "75 %", "mean", "deviation", "not fair", "published", "runs")),
        ),
        tuple(rows),
        usual="estimated",
    )
    yield Heading("What it costs", level=3)
    yield Text(
        "Utility loss is the share of right decisions that a shield takes away, in percent of those that the "
        f"classifier alone gets right; negative where it adds some. {published.UTILITY_LOSS_PLACE}."
    )
    yield Figure("reproduced losses", "Mean utility loss of FinHzn by environment and threshold.", found)
    yield _loss_table(
        "Mean utility loss of FinHzn in percent, by threshold", found.settings.kappas, tables.finite_losses(found)
    )


def _loss_table(caption: str, columns: Sequence[str], rows: Sequence[tables.LossRow]) -> Table:
    return Table(
        caption,
        (Column("property: environment"), *numeric_columns(columns)),
        tuple(
            TableRow(
                (f"{SHORT[row.property]}: {row.environment}", *(tables.format_number(loss) for loss in row.losses))
            )
            for row in rows
        ),
    )


def _periodic_blocks(found: ReproductionRecord) -> Iterator[Block]:
    settings, kappa = found.settings, tables.shown_kappa(found)
    yield Heading("Periodic", anchor="periodic")
    yield Text(
        f"One run is {settings.periods} periods of {settings.period} decisions. It counts as fair only if the bias of "
        "everything so far is at most the threshold at the end of every period. The assumption is what the "
        "shield\u2019s guarantee rests on; it must hold in every period. Dynamic lets periods end anyhow whose "
        "fair end cannot be promised beforehand, as the paper\u2019s definition does. The other two are ours: the "
        "strict one ends them fair wherever it can, the soft one pays for unfair ends by how far from fair they are."
    )
    yield Figure(
        "reproduced periods",
        "Share of runs that are fair at the end of each period, with empty groups at rate 0 as in the paper.",
        found,
    )
    for empty_group in settings.empty_groups:
        rows = tables.rate_rows(found, empty_group=empty_group)
        if not rows:
            continue
        theirs = f" (the paper\u2019s). Published: {published.RATES_PLACE}" if empty_group == "zero" else ""
        yield Table(
            f"Runs in which the assumption held, and fair runs, estimated; empty groups: {empty_group}{theirs}",
            (
                Column("property, shield"),
                *numeric_columns(("assumption held", "published", "fair", "published", "fair where it held", "runs")),
            ),
            tuple(
                TableRow(
                    (
                        f"{SHORT[row.property]}, {shield_label(row.shield)}",
                        _share(row.assumption),
                        _published_share(row.published.assumption if row.published else None),
                        _share(row.fairness),
                        _published_share(row.published.fairness if row.published else None),
                        tables.format_fair_runs(row),
                        row.runs,
                    )
                )
                for row in rows
            ),
            usual="estimated",
        )
    caption = f"Mean utility loss in percent at threshold {kappa}, by shield"
    yield _loss_table(caption, PERIODIC, tables.periodic_losses(found, kappa))


def _choice_blocks(found: ReproductionRecord) -> Iterator[Block]:
    yield Heading("Costs and empty groups", anchor="choices")
    yield Text(
        "Constant costs are the paper\u2019s: every intervention costs 1, and the shield expects any recommendation "
        "equally. With paired costs an intervention costs the classifier\u2019s confidence, and the shield expects "
        "what the classifier recommends. Where a group is empty, the paper takes its rate to be 0, so that the other "
        "group\u2019s must be small too; with min_count=N a group counts once N of it were seen."
    )
    names = ("fair", "without a shield", "interventions per run", "utility loss", "runs")
    yield Table(
        "FinHzn over all environments and thresholds, estimated",
        (Column("property"), Column("costs"), Column("empty groups"), *numeric_columns(names)),
        tuple(
            TableRow(
                (
                    SHORT[row.property],
                    row.costs,
                    row.empty_group,
                    f"{100 * row.fair / row.runs:.1f} %",
                    f"{100 * row.fair_unshielded / row.runs:.1f} %",
                    tables.format_number(row.interventions),
                    f"{tables.format_number(row.loss)} %",
                    row.runs,
                )
            )
            for row in tables.choice_rows(found)
        ),
    )


def _people_blocks(found: ReproductionRecord) -> Iterator[Block]:
    yield Heading("People and classifiers", anchor="people")
    rows = []
    for one in found.classifiers:
        people, known = tables.published_people(one), tables.published_classifier(one)
        gaps = ("demographic_parity", "equal_opportunity")
        rows.append(
            TableRow(
                (
                    f"{one.dataset}, {one.attribute}: {one.classifier}",
                    " / ".join(one.groups),
                    f"{one.people:,} ({people.people:,})",
                    beside_published(f"{100 * one.label:.1f} %", people.label, 1),
                    beside_published(f"{100 * one.group_a:.1f} %", people.group_a, 1),
                    beside_published(tables.format_number(one.gap), people.gap),
                    beside_published(f"{100 * one.accuracy:.1f} %", known.accuracy if known else None, 1),
                    *(
                        beside_published(f"{100 * getattr(one, gap):.1f}", getattr(known, gap) if known else None, 1)
                        for gap in gaps
                    ),
                )
            )
        )
    names = ("people", "label 1", "first group", "gap of labels", "accuracy", "gap (DP)", "gap (EqOpp)")
    yield Table(
        "People, and how the classifiers fare with those they were not trained on, observed; published figures "
        f"({published.PEOPLE_PLACE}; {published.CLASSIFIED_PLACE}) in brackets",
        (Column("environment: classifier"), Column("groups"), *numeric_columns(names)),
        tuple(rows),
    )
    notes = dict.fromkeys((f"{one.dataset}, {one.attribute}", one.note) for one in found.classifiers if one.note)
    if notes:
        yield Heading("Where our data differ", level=3, detail=True)
        yield Text(items=tuple(f"{name}: {note}" for name, note in notes))


def _method_facts(found: ReproductionRecord) -> Facts:
    settings = found.settings
    finite = {
        name: [cell.seconds for cell in found.cells if cell.shield == FINITE and cell.property == name]
        for name in PROPERTIES
    }
    times = "; ".join(
        f"{SHORT[name]} {sum(seconds) / len(seconds):.2f} s for the shield and its {settings.runs} runs "
        f"(published, for the shield alone: about {published.SYNTHESIS[name][0]:g} s, {published.SYNTHESIS_PLACE})"
        for name, seconds in finite.items()
        if seconds
    )
    layers = " x ".join(str(size) for size in settings.layers)
    return Facts((
        ("runs", f"{settings.runs} per setting with a bounded horizon, {settings.periodic_runs} per periodic one"),
        ("arrivals", "drawn with replacement from the people the classifier was not trained on; shields of one "
         "environment, property and threshold decide on the same ones"),
        ("classifiers", f"networks of layers {layers}, trained on {100 * TRAINED_ON:.0f} % of the people; they do not "
         "see the attribute whose groups are compared; periodic shields are for the first of them alone"),
        ("Static-BW", "welfare bounds as wide as the threshold, around the share of label 1"),
        ("equal opportunity", "the true label is known before the next decision; labels are expected as often as "
         "recommendations to accept, as in the authors' code"),
        ("time", times),
    ))  # fmt: skip
