"""What people see of prompts that were answered through a guard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.genai.guard import AnswerStatus
from evenhand.report import words
from evenhand.report.terminal import Screen, list_entries

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.genai.generate import Generated

STATUSES: Mapping[AnswerStatus, str] = {
    "ok": "no deadline at risk",
    "violation": "delivered if there was an item; an assumption is broken",
    "unguarded": "delivered without knowing what the item counts for or shows",
    "refused": "there is no item",
}
"""What requests came to, in words."""


def show_generated(made: Generated, config: Path, *, console: Console | None = None) -> None:
    """Print what prompts came to, what that took, and what is guaranteed.

    Args:
        config: the configuration, to be named in the next command.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"{words.count(made.answered, 'request', 'requests')} answered through a guard", style="bold")
    if made.earlier:
        screen.line(f"{made.earlier:,} of {made.requests:,} were answered before; this run went on from there")
    if made.interrupted:
        left = made.requests - made.earlier - made.answered
        screen.line(f"INTERRUPTED with {left:,} left; the same command goes on with them")
    screen.line()
    rows: list[tuple[str, int, str]] = []
    rows += [(status, made.statuses[status], said) for status, said in STATUSES.items() if made.statuses[status]]
    rows += [("prompts changed", made.changed, ""), ("generator calls", made.calls, "")]
    name = max(len(row[0]) for row in rows)
    number = max(len(f"{row[1]:,}") for row in rows)
    for what, count, said in rows:
        screen.line(said, lead=f"  {what:<{name}}  {count:>{number},}  ")
    screen.line()
    for line in made.guarantee.splitlines():
        screen.line(line, whole=True)
    list_entries(screen, "not ok because", [f"{reason} ({times:,} times)" for reason, times in made.reasons])
    list_entries(screen, "written", [f"{made.table} ({words.count(made.rows, 'request', 'requests')})"], whole=True)
    screen.line(f"evenhand genai assess {made.table} --config {config}", lead="  next: ", style="italic")
