"""What people see of a search: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment, shared
from evenhand.report.terminal import Screen, list_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenhand.individual.result import Assignment
    from evenhand.individual.search.reading import AttributeReading
    from evenhand.individual.search.result import Example, SearchResult, ViolationRate

MATTERING = 6
"""Attributes listed in the terminal."""

STOPPED = {
    "plan": "all its seeds and moves were used",
    "budget": "its budget of questions was spent",
    "time": "the time limit",
    "interrupt": "somebody",
}
"""Why a search ended, in words."""

PEOPLE = {
    "independent attributes, each as in the data": words.EVERYONE,
    "the people in the data": "the people in the data",
    "everyone in the domain, uniformly": "everyone in the domain, all alike",
}
"""Populations of rates, as people read them."""


@dataclass(frozen=True)
class Subject:
    """What was searched.

    Attributes:
        name: of the model; data: what the people are called; people: how many.
        target, favourable: what is decided, and the label that people want.
        label_only: whether the model gives labels without scores.
    """

    name: str
    data: str
    people: int
    target: str
    favourable: str
    label_only: bool


def show_search(
    result: SearchResult, subject: Subject, *, written: Sequence[Path] = (), console: Console | None = None
) -> None:
    """Print a search: how common flips are, what was found, kinds of people, the most severe pair, what matters.

    Args:
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    name = words.joined(result.protected)
    screen.line(f"Search of {subject.name} on {subject.data}", style="bold")
    screen.line(
        f"{words.count(subject.people, 'person', 'people')}; favourable: {subject.target} = {subject.favourable}; "
        f"protected: {name}; method {result.method}; {words.duration(result.seconds)}, seed {result.seed}"
    )
    if result.interrupted:
        screen.line("INTERRUPTED: what is here was found before")
    screen.line()
    for i, rate in enumerate(result.rates):
        lead = f"  {'flips for' if i == 0 else '':<10}{charts.percent(rate.estimate):>8}  "
        screen.line(f"estimated: {rests_on(rate)}", lead=lead, lead_style="bold")
    screen.line(found(result), lead=f"  {'found':<10}{result.profiles:>8,}  ", lead_style="bold")
    screen.line(next_step(result), lead=" " * 22 + "next: ", style="italic")
    if result.reading is None:
        list_entries(screen, "written", [str(path) for path in written], whole=True)
        return
    screen.line()
    screen.line("kinds of people found (every number here is counted on the profiles found)", style="bold")
    for kind in result.reading.kinds:
        lead = f"  {kind.size:>8,}  {charts.percent(kind.share):>7}  "
        screen.line(shared(kind), lead=lead)
    _pair(screen, result.examples[0], result, subject)
    screen.line()
    screen.line("attributes that matter", style="bold")
    width = max(len(one.name) for one in result.reading.attributes[:MATTERING])
    for one in result.reading.attributes[:MATTERING]:
        screen.line(mattering(one), lead=f"  {one.name:<{width}}  ")
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def render_search(result: SearchResult, subject: Subject) -> str:
    """A search as text of one HTML file, without script or network. The same search gives the same text."""
    return str(environment().get_template("search.html").render(_context(result, subject)))


def rests_on(rate: ViolationRate) -> str:
    """What a rate rests on, with its interval, to be read after its kind."""
    low, high = charts.percent(rate.low), charts.percent(rate.high)
    return (
        f"{rate.flips:,} of {rate.n:,} sampled from {PEOPLE.get(rate.population, rate.population)}, "
        f"{words.level(rate.confidence)} interval {low} to {high}"
    )


def found(result: SearchResult) -> str:
    """What the search found and at what price, to be read after the number of profiles."""
    said = "distinct profiles" if result.profiles != 1 else "distinct profile"
    if result.valid is not None and result.profiles:
        many = "all" if result.valid == result.profiles else f"{result.valid:,}"
        said += f", {many} of people who could exist (any two of their values occur together in the data)"
    if result.given:
        said += f", {result.given:,} of people it started from"
    said += f"; {result.queries:,} questions"
    return f"{said}; each asked again at the end"


def next_step(result: SearchResult) -> str:
    """What to do with it."""
    if result.profiles:
        return "read the pairs (--html FILE), keep them as tests (--save-tests FILE)"
    if result.rate is not None:
        return (
            f"with {words.level(result.rate.confidence)} confidence at most {charts.percent(result.rate.high)} are "
            "affected; that nobody is, only a proof can say: evenhand certify"
        )
    return "give it a larger budget, or prove that there is none: evenhand certify"


def mattering(one: AttributeReading) -> str:
    """What an attribute has to do with the findings."""
    parts = []
    if one.sensitive is not None:
        parts.append(
            f"another value undoes {charts.percent(one.sensitive)} of {words.count(one.tried, 'flip', 'flips')}"
        )
    most = max(one.shares, key=lambda share: share.found - (share.data or 0.0))
    if most.data is not None:
        parts.append(f"{most.value}: {charts.percent(most.found)} here, {charts.percent(most.data)} in the data")
    return "; ".join(parts) or "the same as in the data"


def _pair(screen: Screen, example: Example, result: SearchResult, subject: Subject) -> None:
    screen.line()
    screen.line(f"the most severe pair (only {words.joined(result.protected)} differs)", style="bold")
    sides = (example.worse, example.better)
    names = [", ".join(f"{name} = {value}" for name, value in side.values.items()) for side in sides]
    width = max(len(name) for name in names)
    for name, side in zip(names, sides, strict=True):
        screen.line(_decision(side, subject), lead=f"  {name:<{width}}  -> ")
    screen.line(", ".join(f"{name} {value}" for name, value in example.unprotected.items()), lead="  the same: ")
    if example.distance is not None:
        screen.line(_nearest(example), lead="  nearest real person: ")


def _decision(side: Assignment, subject: Subject) -> str:
    favourable = " (favourable)" if side.label == subject.favourable else ""
    score = "" if subject.label_only else f", score {words.decimal(side.score)} (observed)"
    return f"{side.label}{favourable}{score}"


def whose(example: Example) -> str:
    """Whether this is somebody real."""
    if example.distance is not None and not example.changes:
        return "Somebody in the data"
    return "Somebody who could exist" if example.valid else "Somebody in the domain"


def _nearest(example: Example) -> str:
    if not example.changes:
        return "is one of the people in the data"
    return ", ".join(f"{name} {value}" for name, value in example.changes.items()) + ", the rest the same"


def _context(result: SearchResult, subject: Subject) -> dict[str, Any]:
    reading = result.reading
    return {
        "result": result,
        "model": subject,
        "reading": reading,
        "name": words.joined(result.protected),
        "found": found(result),
        "next_step": next_step(result),
        "stopped": STOPPED[result.stopped_by],
        "rates": [(PEOPLE.get(rate.population, rate.population), rate) for rate in result.rates],
        "kinds": [] if reading is None else list(zip(reading.kinds, result.representatives, strict=True)),
        "mattering": mattering,
        "nearest": _nearest,
        "whose": whose,
        "gaps": _figure("gaps", result) if reading is not None and not subject.label_only else None,
        "attributes": _figure("attributes", result) if reading is not None else None,
        "chart_styles": charts.stylesheet(),
    }


def _figure(which: str, result: SearchResult) -> Figure:
    from evenhand.individual.search.plot import draw_attributes, draw_gaps

    draw = draw_gaps if which == "gaps" else draw_attributes
    return Figure(
        wide=charts.svg(draw(result, width=WIDE), name=f"{which}-wide"),
        narrow=charts.svg(draw(result, width=NARROW), name=f"{which}-narrow"),
    )
