"""The first screen in a terminal, and progress: aligned, readable without colour, plain when piped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.charts import printable
from evenhand.report import summary, words

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.audit.result import AuditResult, ModelCard
    from evenhand.individual.result import Assignment

LONGEST = 110
"""Columns used at most: longer lines are hard to read."""

GLUE = "\N{NO-BREAK SPACE}"


class Screen:
    """Lines of text with a hanging indent, wrapped between words and never between a number and its unit.

    Args:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, LONGEST)

    def line(
        self, text: str = "", *, lead: str = "", style: str = "", lead_style: str = "", whole: bool = False
    ) -> None:
        """Print a text; ``lead`` stands before its first line and indents the others by its width.

        A ``whole`` text stays on one line, so that it can be copied.
        """
        from rich.cells import cell_len
        from rich.text import Text

        lead, text = (printable(part).replace("\n", " ").replace("\t", " ") for part in (lead, text))
        indent = cell_len(lead)
        # Never narrower than a word or two, or a long name would leave no room at all.
        room = max(self._width - indent, 20)
        for i, part in enumerate([text] if whole else _wrapped(text, room)):
            shown = Text(lead if i == 0 else " " * indent, style=lead_style if i == 0 else "")
            shown.append(part, style=style)
            self._console.print(shown, soft_wrap=True, markup=False, highlight=False, emoji=False)


def show(audit: AuditResult, *, written: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print the first screen: every answer with its kind and what to do next, the clearest pairs, where the files are.

    Args:
        written: the files that hold the report, as ``write`` returned them.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"Audit of {audit.model.name} on {audit.data.name}", style="bold")
    screen.line(
        f"{words.count(audit.data.people, 'person', 'people')}; favourable: {audit.described.target.name} = "
        f"{audit.model.favourable}; {words.duration(audit.seconds)}, seed {audit.seed}"
    )
    if audit.interrupted:
        screen.line("INTERRUPTED: what is here was found before")
    _answers(screen, summary.lines(audit))
    _pairs(screen, audit)
    list_entries(screen, "not run", [f"{item.what}: {item.reason}" for item in audit.not_run])
    list_entries(screen, "written", [str(path) for path in written], whole=True)
    if written:
        page = shlex.quote(written[0].resolve().as_uri())
        screen.line(f"{Path(sys.executable).name} -m webbrowser {page}", lead="read it  ", whole=True)


@contextmanager
def progress(*, quiet: bool = False, console: Console | None = None) -> Iterator[Callable[[str, float], None]]:
    """A progress bar on standard error while the block runs; nothing if quiet or where that is no terminal.

    Yields:
        What to call as work goes on, with what is being done and the share that is done, 0 to 1.
    """
    if quiet or not (console.is_terminal if console is not None else sys.stderr.isatty()):
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console or Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=printable(what), completed=min(1.0, max(0.0, share)))

        yield advance


def _silent(what: str, share: float) -> None:
    """Progress that nobody watches."""


def _answers(screen: Screen, lines: Sequence[summary.Line]) -> None:
    question = max((len(line.question) for line in lines), default=0)
    number = max((len(line.number) for line in lines), default=0)
    before = None
    for line in lines:
        if line.protected != before:
            screen.line()
            screen.line(line.protected, style="bold")
        before = line.protected
        screen.line(
            f"{line.kind}{':' if line.value is None else ''} {line.details[0]}",
            lead=f"  {line.question:<{question}}  {line.number:>{number}}  ",
            lead_style="bold",
        )
        for detail in line.details[1:]:
            screen.line(detail, lead=" " * (question + number + 6))
        screen.line(line.next_step, lead=" " * (question + number + 6) + "next: ", style="italic")


def _pairs(screen: Screen, audit: AuditResult) -> None:
    """The clearest pair of every single protected attribute."""
    for name in audit.protected:
        profile = next(iter(summary.pairs(audit.individual, (name,))), None)
        if profile is None:
            continue
        whose = "somebody in the data" if profile.source == "data" else "somebody who could apply"
        screen.line()
        screen.line(f"the clearest pair for {name} ({whose}; only {name} differs)", style="bold")
        sides = (profile.worse, profile.better)
        value = max(len(side.values[name]) for side in sides)
        for side in sides:
            screen.line(_decision(side, audit.model), lead=f"  {name} = {side.values[name]:<{value}}  -> ")
        screen.line(", ".join(f"{other} {value}" for other, value in profile.unprotected.items()), lead="  the same: ")


def _decision(side: Assignment, model: ModelCard) -> str:
    favourable = " (favourable)" if side.label == model.favourable else ""
    score = "" if model.label_only else f", score {words.decimal(side.score)} (observed)"
    return f"{side.label}{favourable}{score}"


def list_entries(screen: Screen, name: str, entries: Sequence[str], *, whole: bool = False) -> None:
    """Print entries below each other, the name before the first; ``whole`` keeps each on one line."""
    if entries:
        screen.line()
    for i, entry in enumerate(entries):
        screen.line(entry, lead=f"{name if i == 0 else '':<9}", whole=whole)


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns; a word longer than that stays whole, so that it can be copied."""
    from rich.cells import cell_len

    lines = [""]
    for word in text.replace(" %", f"{GLUE}%").split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [line.replace(GLUE, " ") for line in lines]
