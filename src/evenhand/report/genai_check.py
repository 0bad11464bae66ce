"""What people see of a checked configuration, and of a labelled sample: screens in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.report.genai import show_feasibility
from evenhand.report.terminal import Screen
from evenhand.stats.quantity import Unknown

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.genai.check import Check
    from evenhand.genai.confusion_result import ConfusionResult


def show_check(found: Check, name: str, *, console: Console | None = None) -> None:
    """Print whether a configuration can be kept, what labels make of it, and what retries and slack are worth.

    Args:
        name: of the configuration.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    console = console or Console()
    show_feasibility(found.feasibility, name, console=console)
    screen = Screen(console)
    if found.labels:
        screen.line()
        screen.line("Labels", style="bold")
    for one in found.labels:
        screen.line(one.statement(), lead=f"  {one.specification}  ")
        for value in one.values:
            screen.line(value.statement(), lead="    ")
    if found.settings is None:
        return
    screen.line()
    screen.line("Instructions", style="bold")
    screen.line(found.success.statement(), lead="  ")
    screen.line(found.settings.statement(), lead="  configured: ")
    if isinstance(found.smallest, Unknown):
        screen.line(found.smallest.reason, lead="  enough: none; ")
    elif found.smallest is not None:
        screen.line(found.smallest.statement(), lead="  enough: ")


def show_confusion(result: ConfusionResult, *, console: Console | None = None) -> None:
    """Print a labelled sample: the counts, how often labels are right, what deadlines are worth.

    Args:
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    opening, *lines = result.summary().splitlines()
    screen.line(opening, style="bold")
    table = len(lines) - len(result.worth)
    for line in lines[:table]:
        screen.line(line, whole=True)
    for line in lines[table:]:
        screen.line(line)
