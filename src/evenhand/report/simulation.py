"""What people see of a simulated shield: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import LONGEST, Screen, list_entries
from evenhand.shield.result import LEVELS
from evenhand.shield.simulation_plot import draw_normalised, draw_over_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenhand.shield.result import SimulationResult

BESIDE = 72
"""Columns from which explanations stand beside their numbers; below, they stand under them."""

KEPT = {
    "demographic_parity": "the acceptance rates of any two groups differ by at most {0:g}",
    "disparate_impact": "1 less the ratio of the smaller acceptance rate to the larger is at most {0:g}",
    "equal_opportunity": "the acceptance rates among those whose true label is favourable differ by at most {0:g}",
}
"""What a shield keeps, by its property."""

ORDERS = {
    "random": "independent draws",
    "one-group-first": "one group after the other, which first drawn for every run",
    "alternating": "the groups by turns",
    "worst": "one group always recommended, the others never; which, drawn for every run",
    "greedy": "an adversary that sees the counters and mostly sends whom widens the gap",
}
"""In which order individuals arrive, in words."""


def show_simulation(result: SimulationResult, *, written: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print a simulation: shares of fair runs with and without the shield, what it rests on and what it costs.

    Args:
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    console = console or Console()
    screen = Screen(console)
    screen.line(title(result), style="bold")
    screen.line(
        f"{words.count(result.runs, 'run', 'runs')} of {result.periods * result.horizon:,} decisions: "
        f"{ORDERS[result.order]}; kept {result.when()}: {kept(result)}; {words.duration(result.seconds)}, "
        f"seed {result.seed}"
    )
    if result.interrupted:
        screen.line("INTERRUPTED: the runs here were complete before")
    screen.line()
    answers = result.answers()
    question = max(len(answer.question) for answer in answers)
    number = max(len(answer.number) for answer in answers)
    beside = min(console.width, LONGEST) >= BESIDE
    for answer in answers:
        lead = f"  {answer.question:<{question}}  {answer.number:>{number}}  "
        if beside:
            screen.line(answer.rests_on, lead=lead, lead_style="bold")
        else:
            screen.line(lead=lead.rstrip(), lead_style="bold")
            screen.line(answer.rests_on, lead="    ")
    screen.line(next_step(result), lead=" " * (6 + question + number if beside else 4) + "next: ", style="italic")
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def render_simulation(result: SimulationResult) -> str:
    """A simulation as text of one HTML file, without script or network; the same simulation, the same text."""
    context = {
        "result": result,
        "title": title(result),
        "kept": kept(result),
        "order": ORDERS[result.order],
        "answers": result.answers(),
        "next_step": next_step(result),
        "over_time": _figure("over-time", draw_over_time, result),
        "normalised": _figure("normalised", draw_normalised, result),
        "checks": [moment for moment in result.over_time if moment.checked],
        "levels": LEVELS,
        "chart_styles": charts.stylesheet(),
    }
    return str(environment().get_template("simulation.html").render(context))


def title(result: SimulationResult) -> str:
    """What was simulated, on whom."""
    terminal = f", {result.terminal}" if result.terminal else ""
    return f"Simulation of a shield ({result.shield}{terminal}) on {result.source}"


def kept(result: SimulationResult) -> str:
    """What the shield keeps, in words."""
    return KEPT[result.property].format(float(Fraction(result.kappa)))


def next_step(result: SimulationResult) -> str:
    """What to do with the answer."""
    if result.fair_share == 1:
        if result.order == "random":
            return "let somebody try to break it: --order greedy, --order one-group-first"
        return "see what it costs for those who really come: --order random, on your own model and data"
    if result.assumption_share is not None and result.assumption_share < 1:
        return "longer periods, or kind dynamic with terminal strict, which assumes less"
    return "kind finite, static-bw or dynamic, which guarantee it"


def _figure(name: str, draw: Any, result: SimulationResult) -> Figure:
    return Figure(
        wide=charts.svg(draw(result, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(result, width=NARROW), name=f"{name}-narrow"),
    )
