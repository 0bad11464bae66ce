"""The mitigation tables as plain text, and the words that all their forms share."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.reproduce.mitigation import published, tables
from evenhand.reproduce.mitigation.result import MitigationTables
from evenhand.reproduce.mitigation.subgroups import GIVEN
from evenhand.reproduce.shields import published as shields
from evenhand.reproduce.shields.text import left_out

SEEN_AS = {GIVEN: "before"}
"""What a table calls a method by another name."""


def method(name: str) -> str:
    """A method in a table."""
    return SEEN_AS.get(name, name)


def percent(value: float) -> str:
    """A share in percent, no sign before a zero.

    >>> percent(0.2), percent(-0.0001)
    ('20.0', '0.0')
    """
    return f"{round(100 * value, 1) + 0.0:.1f}"


def summary(found: MitigationTables) -> str:
    """Both tables, published figures in brackets."""
    lines = [
        "Mitigation tables, made again; published figures in brackets, all in percent",
        f"{len(found.mended) + len(found.classifiers)} of {found.wanted} entries, "
        f"{found.settings.runs} {'run' if found.settings.runs == 1 else 'runs'} each, {found.seconds:.0f} s, "
        f"seed {found.seed}",
    ]
    if found.left_out:
        lines.append(left_out(found.left_out))
    if found.interrupted:
        lines.append("INTERRUPTED: what is here was complete before")
    if found.mended:
        lines += _subgroups(found)
    if found.classifiers:
        lines += _classifiers(found)
    return "\n".join(lines)


def _subgroups(found: MitigationTables) -> list[str]:
    lines = [
        "",
        f"The widest subgroup gap, before and after ({published.PAPER}, {published.RETRAINED_PLACE})",
        "  gap: rate of favourable decisions in the subgroup against that of everybody else, observed on people kept",
        "  aside, on those learnt from, and on nudged samples around those, as the paper counts",
    ]
    cells = [["", "", "kept aside", "", "learnt from", "", "sampled", ""],
             ["", "method", "accuracy", "gap", "accuracy", "gap", "gap", "(inside, outside)"]]  # fmt: skip
    for row in tables.rows(found):
        known = row.published
        cells.append(
            [
                row.case if row.method == GIVEN else "",
                method(row.method),
                percent(row.accuracy),
                percent(row.gap) + ("" if row.low is None or row.high is None else
                                    f" [{percent(row.low)}, {percent(row.high)}]"),
                percent(row.learnt_accuracy) + (f" ({known.accuracy:.1f})" if known else ""),
                percent(row.learnt_gap),
                percent(row.sampled_gap) + (f" ({known.gap:.1f})" if known else ""),
                f"({percent(row.rate)}, {percent(row.rest_rate)})",
            ]
        )  # fmt: skip
    lines += table(cells, words=2)
    for case in dict.fromkeys(one.case for one in found.mended):
        ours = "; ".join(
            words + (f" ({times} runs)" if times > 1 else "") for words, times in tables.subgroups_found(found, case)
        )
        lines.append(f"  {case}: {ours}. Published: {published.RETRAINED[case].words}")
    lines += [f"  {case}, {name} left out: {why}" for case, name, why in tables.left_out(found)]
    lines += ["", *said(found)]
    return lines


def said(found: MitigationTables) -> list[str]:
    """How often each method halved the gap for less than a point, a sentence each."""
    return [
        f"{one.method}: the gap at least halved for less than a point of accuracy on {len(one.cases)} of {one.of} data "
        f"sets on people kept aside" + (f" ({', '.join(one.cases)})" if one.cases else "")
        + f", on {len(one.paper)} as the paper counts"
        for one in tables.reached(found)
        if one.of
    ]  # fmt: skip


def _classifiers(found: MitigationTables) -> list[str]:
    lines = ["", f"Classifiers trained to be fair (Fairness Shields, {shields.WHERE}; {shields.CLASSIFIED_PLACE})"]
    cells = [["", "classifier", "accuracy", "gap (DP)", "gap (EqOpp)"]]
    seen = ""
    for row in tables.classifier_rows(found):
        known = row.published
        cells.append(
            [
                "" if row.environment == seen else row.environment,
                row.classifier,
                percent(row.accuracy) + (f" ({known.accuracy:.1f})" if known else ""),
                percent(row.demographic_parity) + (f" ({known.demographic_parity:.1f})" if known else ""),
                percent(row.equal_opportunity) + (f" ({known.equal_opportunity:.1f})" if known else ""),
            ]
        )
        seen = row.environment
    return lines + table(cells, words=2)


def table(rows: Sequence[Sequence[str]], *, words: int) -> list[str]:
    """Columns that line up; those after the first so many to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
