"""What people see of a search for subgroups: a screen in the terminal, a page of its own, a section of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import LONGEST, Screen, list_entries
from evenhand.subgroup import Refused, sentences
from evenhand.subgroup.plot import CHILDREN, draw_gaps, draw_nesting, nested, shown
from evenhand.subgroup.text import TextSubgroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenhand.report.search import Subject
    from evenhand.subgroup import Finding, SubgroupResult

LISTED = 15
"""Subgroups listed in the terminal."""

OPEN = 12
"""Subgroups of the page's table that are seen before it is unfolded."""

MOST = 100
"""Subgroups of the page's table; the JSON has all."""

EXAMPLES = 12
"""Texts of the page whose label changes with a word."""

BESIDE = 96
"""Columns from which rules stand beside their numbers; below, they stand under them."""


def show_subgroups(
    result: SubgroupResult, subject: Subject, *, written: Sequence[Path] = (), console: Console | None = None
) -> None:
    """Print a search for subgroups: how many were looked at, the ranked table, what was asked about.

    Args:
        result: the search.
        subject: what was searched.
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    console = console or Console()
    screen = Screen(console)
    screen.line(f"Subgroups of {subject.name} on {subject.data}", style="bold")
    screen.line(
        f"{result.people:,} {sentences.nouns(result)}; {sentences.RATES[result.measure]}: "
        f"{sentences.rate(result, result.rate)}; favourable: {subject.target} = {subject.favourable}; "
        f"over {words.joined(cells.name for cells in result.attributes)}; method {result.method}; "
        f"{words.duration(result.seconds)}, seed {result.seed}"
    )
    if result.interrupted:
        screen.line("INTERRUPTED: what is here was found before")
    screen.line()
    wide = max(8, len(f"{result.tested:,}"))
    screen.line(sentences.looked_at(result), lead=f"  looked at {result.tested:>{wide},}  ", lead_style="bold")
    screen.line(sentences.stand_out(result), lead=f"  stand out {result.found:>{wide},}  ", lead_style="bold")
    screen.line(next_step(result), lead=" " * (14 + wide) + "next: ", style="italic")
    own, below = listed(result)
    if own:
        screen.line()
        beside = min(console.width, LONGEST) >= BESIDE
        screen.line(
            f"{sentences.kind(result)}; gap to {sentences.others(result)} in {sentences.unit(result)}, with its "
            f"{'adjusted' if result.control != 'none' else 'unadjusted'} {words.level(result.confidence)} interval",
            style="bold",
        )
        screen.line(
            f"  rank    gap          interval  {sentences.nouns(result):>8}      rate   others"
            f"{'   subgroup' if beside else ''}",
            whole=True,
        )
        for rank, finding in enumerate(own[:LISTED], 1):
            _row(screen, rank, result, finding, below.get(id(finding), 0), beside=beside)
        if len(own) > LISTED:
            screen.line(
                f"and {len(own) - LISTED:,} more: --out FILE, --html FILE or --json FILE has them", lead=" " * 8
            )
        screen.line()
        screen.line(sentences.sentence(result, own[0], subject.favourable), style="bold")
    if result.judged:
        screen.line()
        screen.line("asked about", style="bold")
        for judged in result.judged:
            refused = f"{judged.words}: " if isinstance(judged, Refused) else ""
            screen.line(refused + said_of(result, judged, subject.favourable), lead="  ")
    if isinstance(result, TextSubgroups) and result.effects:
        screen.line()
        screen.line("the same texts with other words (observed on the texts asked about)", style="bold")
        for said in swapped(result):
            screen.line(said, lead="  ")
    if result.around:
        screen.line()
        screen.line("around the data (samples, not people)", style="bold")
        for one in result.around:
            screen.line(one.sentence(), lead="  ")
    list_entries(screen, "note", list(result.notes))
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def render_subgroups(result: SubgroupResult, subject: Subject) -> str:
    """A search for subgroups as text of one HTML file, without script or network; the same search, the same text."""
    context = {
        "result": result,
        "part": section(result, subject.favourable),
        "model": subject,
        "name": words.joined(cells.name for cells in result.attributes),
        "next_step": next_step(result),
        "swapped": swapped(result) if isinstance(result, TextSubgroups) and result.effects else [],
        "examples": result.examples[:EXAMPLES] if isinstance(result, TextSubgroups) else (),
        "chart_styles": charts.stylesheet(),
    }
    return str(environment().get_template("subgroups-page.html").render(context))


def section(result: SubgroupResult, favourable: str) -> dict[str, Any]:
    """What templates show of a search: words, rows and drawings."""
    own, below = listed(result)
    return {
        "subgroups": result,
        "own": own,
        "nested": _nested(result),
        "open": OPEN,
        "most": MOST,
        "children": CHILDREN,
        "judged": result.judged,
        "nouns": sentences.nouns(result),
        "kind": sentences.kind(result),
        "sentence": lambda finding: sentences.sentence(result, finding, favourable),
        "below": lambda finding: below.get(id(finding), 0),
        "said_of": lambda judged: said_of(result, judged, favourable),
        "points": lambda gap: sentences.points(result, gap).replace("-", "\N{MINUS SIGN}"),
        "rate": lambda value: sentences.rate(result, value),
        "unclear": lambda finding: sentences.unclear(result, finding),
        "in_people": lambda finding: sentences.in_people(result, finding),
        "directions": sentences.directions(result),
        "unit": sentences.unit(result),
        "others": sentences.others(result),
        "rate_name": sentences.RATES[result.measure],
        "looked_at": sentences.looked_at(result),
        "stand_out": sentences.stand_out(result),
        "stand_out_terms": sentences.standing_out(result),
        "adjusted": "adjusted" if result.control != "none" else "unadjusted",
        "gap_figure": _figure("subgroup-gaps", result) if own else None,
        "nesting_figure": _figure("subgroup-nesting", result) if own and sentences.counted(result) else None,
    }


def listed(result: SubgroupResult) -> tuple[list[Finding], dict[int, int]]:
    """Findings that no simpler one explains, worse ones first; and by ``id`` how many each of them explains."""
    own = shown(result, len(result.findings))
    below: dict[int, int] = {}
    at = 0
    for finding, depth in nested(result):
        if depth == 0:
            at = id(finding)
        else:
            below[at] = below.get(at, 0) + 1
    return own, below


def said_of(result: SubgroupResult, judged: Finding | Refused, favourable: str) -> str:
    """What can be said of a subgroup that was asked about."""
    if isinstance(judged, Refused):
        return f"refused: {judged.reason}"
    low, high = sentences.points(result, judged.low), sentences.points(result, judged.high)
    verdict = sentences.unclear(result, judged) or "stands out"
    return (
        f"{sentences.sentence(result, judged, favourable)} Gap {sentences.points(result, judged.gap)} "
        f"{sentences.unit(result)}, interval {low} to {high}: {verdict}."
    )


def next_step(result: SubgroupResult) -> str:
    """What to do with it."""
    if result.method != "exact":
        return "compare with --method exact, whose intervals are about the people and hold for all subgroups together"
    if not result.found:
        return "nothing stands out among those looked at; more data or a lower --support would show smaller ones"
    if isinstance(result, TextSubgroups):
        return "see whether the same texts fare otherwise with other words: that is the model's own doing"
    return (
        "see what explains the gap: the errors (--measure false-negative), the gap within the values of another "
        "attribute (--per NAME)"
    )


def swapped(result: TextSubgroups) -> list[str]:
    """What swapping words in the same texts does, clearest first, and how often it changes the label."""
    clear = [effect for effect in result.effects if effect.found and effect.under is None]
    said = [
        f"{result.sentence(effect)} Difference {sentences.points(result, effect.gap)} {sentences.unit(result)}, "
        f"interval {sentences.points(result, effect.low)} to {sentences.points(result, effect.high)}."
        for effect in clear[:LISTED]
    ]
    if not clear:
        said.append(f"None of {len(result.effects):,} groups makes a difference that is told from chance.")
    return said + [
        f"{one.category}: the label of {one.flips:,} of {one.texts:,} texts changes with the words."
        for one in result.flips
    ]


def _row(screen: Screen, rank: int, result: SubgroupResult, finding: Finding, below: int, *, beside: bool) -> None:
    interval = f"{sentences.points(result, finding.low)} to {sentences.points(result, finding.high)}"
    numbers = (
        f"  {rank:>3}  {sentences.points(result, finding.gap):>6}  {interval:>16}  {finding.size:>8,}  "
        f"{sentences.rate(result, finding.rate):>8} {sentences.rate(result, finding.rest_rate):>8}"
    )
    rules = finding.words + (f" (and {below:,} within it)" if below else "")
    if not finding.found:
        rules += f" ({sentences.unclear(result, finding)})"
    if beside:
        screen.line(rules, lead=numbers + "   ")
    else:
        screen.line(numbers, whole=True)
        screen.line(rules, lead=" " * 8)


def _nested(result: SubgroupResult) -> list[dict[str, Any]]:
    return [
        {
            "it": finding,
            "depth": depth,
            "words": sentences.added(result, finding),
        }
        for finding, depth in nested(result)
    ]


def _figure(name: str, result: SubgroupResult) -> Figure:
    draw = draw_gaps if name == "subgroup-gaps" else draw_nesting
    return Figure(
        wide=charts.svg(draw(result, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(result, width=NARROW), name=f"{name}-narrow"),
    )
