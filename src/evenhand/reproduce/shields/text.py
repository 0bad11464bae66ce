"""A reproduction as plain text, and the words that all its forms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenhand.reproduce.shields import published, tables
from evenhand.reproduce.shields.result import Reproduction
from evenhand.reproduce.shields.settings import PERIODIC

SHORT = {"demographic_parity": "DP", "equal_opportunity": "EqOpp"}
LONG = {"demographic_parity": "demographic parity", "equal_opportunity": "equal opportunity"}
UNSHIELDED = "no shield"


def shield(name: str) -> str:
    """A shield in a table."""
    return UNSHIELDED if name == tables.NONE else name


def number(value: float | None, digits: int = 2) -> str:
    """A number in a table; nothing where there is none, no sign before a zero.

    >>> number(1.234), number(None), number(-0.001)
    ('1.23', '', '0.00')
    """
    return "" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def held(row: tables.RateRow) -> str:
    """How many of the runs in which the assumption held were fair."""
    if row.assumed is None:
        return ""
    return f"{row.fair_when_assumed:,} of {row.assumed:,}" if row.assumed else "never held"


def left_out(reasons: Mapping[str, str]) -> str:
    """Which classifiers are missing, and why.

    >>> left_out({"HSIC": "no torch", "PR": "no torch"})
    'LEFT OUT: HSIC, PR: no torch'
    """
    return "; ".join(
        f"LEFT OUT: {', '.join(name for name, own in reasons.items() if own == why)}: {why}"
        for why in dict.fromkeys(reasons.values())
    )


def summary(found: Reproduction) -> str:
    """All tables, published figures beside ours."""
    settings = found.settings
    names = [name for name in settings.classifiers if name not in found.left_out]
    lines = [
        f"Fairness Shields ({published.WHERE}), run again",
        f"{'; '.join(found.environments)}; classifiers: {', '.join(names)}; thresholds {', '.join(settings.kappas)}",
        f"{len(found.cells)} of {found.wanted} settings, {sum(cell.runs() for cell in found.cells):,} runs, "
        f"{found.seconds:.0f} s, seed {found.seed}; all figures are estimated by simulation",
    ]
    if found.left_out:
        lines.append(left_out(found.left_out))
    if found.interrupted:
        lines.append("INTERRUPTED: what is here was complete before")
    lines += ["", "The people, and how the classifiers fare with them (published in brackets)"]
    rows = [["", "people", "label 1", "first group", "accuracy", "DP", "EqOpp"]]
    for one in found.classifiers:
        people, known = tables.published_people(one), tables.published_classifier(one)
        rows.append(
            [
                f"{one.dataset}, {one.attribute}: {one.classifier}",
                f"{one.people:,} ({people.people:,})",
                f"{100 * one.label:.1f} % ({people.label:.1f})",
                f"{100 * one.group_a:.1f} % ({people.group_a:.1f})",
                f"{100 * one.accuracy:.1f} %" + (f" ({known.accuracy})" if known else ""),
                f"{100 * one.demographic_parity:.1f}" + (f" ({known.demographic_parity})" if known else ""),
                f"{100 * one.equal_opportunity:.1f}" + (f" ({known.equal_opportunity})" if known else ""),
            ]
        )
    lines += _table(rows)
    lines += ["", f"Bounded horizon: bias at the end / kappa (published, {published.BIAS_PLACE}, in brackets)"]
    rows = [["", "", "25 %", "median", "75 %", "mean", "deviation", "above", "of runs"]]
    for row in tables.bias_rows(found):
        known_row = row.published
        ours = [row.lower, row.median, row.upper, row.mean, row.deviation]
        theirs = (
            [known_row.lower, known_row.median, known_row.upper, known_row.mean, known_row.deviation]
            if known_row
            else [None] * 5
        )
        rows.append(
            [
                SHORT[row.property],
                shield(row.shield),
                *(f"{own:.2f}{_beside(other)}" for own, other in zip(ours, theirs, strict=True)),
                f"{100 * row.above / row.runs:.1f} %{_beside(known_row.above if known_row else None)}",
                f"{row.runs:,}",
            ]
        )
    lines += _table(rows)
    for empty_group in settings.empty_groups:
        rate_rows = tables.rate_rows(found, empty_group=empty_group)
        if not rate_rows:
            continue
        said = " (published, Table 2, in brackets)" if any(row.published for row in rate_rows) else ""
        lines += ["", f"Periodic, empty groups {empty_group}: runs in which the assumption held, and fair ones{said}"]
        rows = [["", "", "assumption", "fair", "fair where it held", "of runs"]]
        for rate in rate_rows:
            known_rate = rate.published
            rows.append(
                [
                    SHORT[rate.property],
                    shield(rate.shield),
                    ""
                    if rate.assumed is None
                    else f"{100 * rate.assumed / rate.runs:.1f} %"
                    + _beside(known_rate.assumption if known_rate else None),
                    f"{100 * rate.fair / rate.runs:.1f} %{_beside(known_rate.fairness if known_rate else None)}",
                    held(rate),
                    f"{rate.runs:,}",
                ]
            )
        lines += _table(rows)
    lines += ["", "Utility loss of FinHzn: right decisions lost, mean in percent, by threshold"]
    lines += _table([["", "", *settings.kappas], *_loss_rows(tables.finite_losses(found))])
    kappa = tables.shown_kappa(found)
    lines += ["", f"Utility loss of periodic shields at threshold {kappa}, mean in percent"]
    lines += _table([["", "", *PERIODIC], *_loss_rows(tables.periodic_losses(found, kappa))])
    lines += ["", "What costs and the convention for empty groups change (FinHzn)"]
    rows = [["", "costs", "empty groups", "fair", "without", "interventions", "utility loss"]]
    rows += [
        [
            SHORT[choice.property],
            choice.costs,
            choice.empty_group,
            f"{100 * choice.fair / choice.runs:.1f} %",
            f"{100 * choice.fair_unshielded / choice.runs:.1f} %",
            f"{choice.interventions:.2f}",
            f"{choice.loss:.2f} %",
        ]
        for choice in tables.choice_rows(found)
    ]
    lines += _table(rows)
    return "\n".join(lines)


def _loss_rows(rows: Sequence[tables.LossRow]) -> list[list[str]]:
    return [[SHORT[row.property], row.environment, *(number(loss) for loss in row.losses)] for row in rows]


def _beside(value: float | None) -> str:
    return "" if value is None else f" ({value:.2f})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that line up; those after the second to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    words = 2 if not rows[0][1] or rows[0][1] == "costs" else 1
    words = 3 if rows[0][1] == "costs" else words
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
