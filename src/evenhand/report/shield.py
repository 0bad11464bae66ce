"""What people see of a shield: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.report import words
from evenhand.report.terminal import Screen, list_entries
from evenhand.shield.promises import convention, promises

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.shield import Policy


def show_policy(
    policy: Policy, *, path: Path | None = None, file_bytes: int | None = None, console: Console | None = None
) -> None:
    """Print a shield that was synthesised: what it guarantees, what that costs, how large it is.

    Args:
        path: the file that was written, of ``file_bytes``.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    plan = policy.plan
    screen.line(f"Shield for {' and '.join(plan.inputs.groups)}, kind {plan.kind}", style="bold")
    for sentence in (*promises(plan), convention(plan)):
        screen.line(sentence)
    screen.line()
    cost = "unknown" if isnan(policy.expected_cost) else words.decimal(policy.expected_cost)
    rests = f"of all overrides in {plan.horizon:,} decisions, computed for people who come as the configuration says"
    screen.line(rests, lead=f"  {'expected cost':<15}{cost:>10}  ", lead_style="bold")
    screen.line(f"in {words.duration(policy.seconds)}", lead=f"  {'states':<15}{policy.states:>10,}  ", lead_style="bold")
    in_file = f", {size(file_bytes)} in the file" if file_bytes is not None else ""
    screen.line(f"of actions{in_file}", lead=f"  {'table':<15}{size(policy.bytes):>10}  ", lead_style="bold")
    if path is not None:
        list_entries(screen, "written", [str(path)], whole=True)
        screen.line(f"evenhand shield inspect {path}", lead="look at it  ", whole=True)


def size(count: int) -> str:
    """A number of bytes as ``812 B``, ``98.5 kB``, ``1.2 MB``."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.5 else f"{amount:.1f} {unit}"
