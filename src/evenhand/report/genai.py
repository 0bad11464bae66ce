"""What people see of simulated generators: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.genai.simulation import WORDS, ComparisonResult, SimulationResult
from evenhand.genai.simulation_plot import draw_costs, draw_gaps
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import Screen, list_entries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from evenhand.genai.feasibility import Feasibility

METHODS = {
    "hall": "no more are ever due than there are items",
    "exact": "the game of {:,} positions was solved",
}
"""How it is known whether deadlines can be kept."""

ORDERS = {
    "requests": "the order in which items were asked for",
    "decisions": "the order in which first items were there",
}
"""In which order a sequence is judged, in words."""


def show_feasibility(found: Feasibility, name: str, *, console: Console | None = None) -> None:
    """Print whether a configuration can be kept, and how that is known of each specification.

    Args:
        name: of the configuration.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"{name} {'can' if found.feasible else 'cannot'} be kept", style="bold")
    screen.line(found.reason)
    screen.line()
    for one in found.specifications:
        if one.repeated is None:
            screen.line("every value must appear; there are no deadlines", lead=f"  {one.name}  ")
            continue
        within = ", ".join(f"{value} within {by}" for value, by in zip(one.values, one.repeated, strict=True))
        how = f"; {METHODS[one.method].format(one.states)}" if one.method is not None else ""
        screen.line(f"{'' if one.feasible else 'AT FAULT: '}{within}{how}", lead=f"  {one.name}  ")
    if found.mend is not None:
        screen.line(found.mend, lead="  next: ", style="italic")


def show_generation(
    result: SimulationResult | ComparisonResult, *, written: Sequence[Path] = (), console: Console | None = None
) -> None:
    """Print simulated policies: deadlines missed, what that cost, the longest gap of each value.

    Args:
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    opening, *lines = result.summary().splitlines()
    screen.line(f"Simulated generator: {opening}", style="bold")
    for line in lines:
        screen.line(line, whole=True)
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def render_generation(result: SimulationResult | ComparisonResult, name: str) -> str:
    """Simulated policies as text of one HTML file, without script or network; the same result, the same text.

    Args:
        name: of the configuration.
    """
    simulations = simulations_of(result)
    context = {
        "result": result,
        "simulations": simulations,
        "name": name,
        "words": WORDS,
        "orders": ORDERS,
        "gaps": _figure("gaps", draw_gaps, simulations),
        "costs": _figure("costs", draw_costs, simulations),
        "chart_styles": charts.stylesheet(),
    }
    return str(environment().get_template("generation.html").render(context))


def simulations_of(result: SimulationResult | ComparisonResult) -> tuple[SimulationResult, ...]:
    """The simulations of a result, one for each policy."""
    return result.simulations if isinstance(result, ComparisonResult) else (result,)


def _figure(name: str, draw: Any, simulations: Sequence[SimulationResult]) -> Figure:
    return Figure(
        wide=charts.svg(draw(simulations, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(simulations, width=NARROW), name=f"{name}-narrow"),
    )
