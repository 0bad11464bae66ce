"""The first screen in a terminal, and progress: aligned, readable without colour, plain when piped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from evenhand.core.text import strip_unprintable
from evenhand.core.typing import Progress
from evenhand.view.notebook import show_in_notebook
from evenhand.view.screen import lay_out

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.core.document import Document

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
        self.width = min(console.width, LONGEST)
        self.widest = console.width

    def line(
        self, text: str = "", *, lead: str = "", style: str = "", lead_style: str = "", whole: bool = False
    ) -> None:
        """Print a text; ``lead`` stands before its first line and indents the others by its width.

        A ``whole`` text stays on one line, so that it can be copied.
        """
        from rich.cells import cell_len
        from rich.text import Text

        lead, text = (strip_unprintable(part).replace("\n", " ").replace("\t", " ") for part in (lead, text))
        indent = cell_len(lead)
        # Never narrower than a word or two, or a long name would leave no room at all.
        room = max(self.width - indent, 20)
        for i, part in enumerate([text] if whole else _wrap_text(text, room)):
            first = (lead, lead_style) if i == 0 else (" " * indent, "")
            shown = Text.assemble(first, (part, style))
            self._console.print(shown, soft_wrap=True, markup=False, highlight=False, emoji=False)


def show_document(document: Document, *, written: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print the screen of a document: its findings, and where the files are.

    Args:
        document: what to show; sections that are details and folded parts are for pages.
        written: files that were written.
        console: where to print; by default standard output, without colours when that is not a terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    for line in lay_out(document, screen.width, widest=screen.widest):
        screen.line(line.text, lead=line.lead, style=line.style, lead_style=line.lead_style, whole=line.whole)
    list_entries(screen, "written", [str(path) for path in written], whole=True)
    page = next((path for path in written if path.suffix == ".html"), None)
    if page is not None:
        place = shlex.quote(page.resolve().as_uri())
        screen.line(f"{Path(sys.executable).name} -m webbrowser {place}", lead="read it  ", whole=True)


def in_notebook() -> bool:
    """Check whether this process is the kernel of a notebook, without importing IPython."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(find_shell() if find_shell else None, "kernel", None) is not None


@contextmanager
def show_progress(*, quiet: bool = False, console: Console | None = None) -> Iterator[Progress]:
    """Show a progress bar on standard error while the block runs; in a notebook below the cell; nothing if quiet.

    Where standard error is not a terminal, it says once that something is compiled, which would otherwise be a long
    silence.

    Yields:
        What to call as work goes on, with what is being done and the share that is done, 0 to 1.
    """
    if console is None and not quiet and in_notebook():
        with show_in_notebook() as advance_line:
            yield advance_line
        return
    if quiet or not (console.is_terminal if console is not None else sys.stderr.isatty()):
        yield _ignore_progress if quiet else _name_compilation(sys.stderr if console is None else console.file)
        return
    from rich import progress as drawn
    from rich.console import Console

    bar = drawn.Progress(
        drawn.BarColumn(bar_width=24),
        drawn.TaskProgressColumn(),
        drawn.TimeElapsedColumn(),
        drawn.TextColumn("{task.description}", markup=False),
        console=console or Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=strip_unprintable(what), completed=min(1.0, max(0.0, share)))

        yield advance


@contextmanager
def follow_progress(progress: Progress | bool | None = None) -> Iterator[Progress]:
    """Yield what a verb calls as it works: it is quiet unless asked, except in a notebook.

    Args:
        progress: a function that is called with what is being done and the share that is done, 0 to 1; True: shown as
            by ``show_progress``; False: not shown; None: shown in a notebook and nowhere else.
    """
    if callable(progress):
        yield progress
        return
    if not (in_notebook() if progress is None else progress):
        yield _ignore_progress
        return
    with show_progress() as advance:
        yield advance


def _name_compilation(out: IO[str]) -> Progress:
    named: set[str] = set()

    def say(what: str, share: float) -> None:
        if what.startswith("compiling") and what not in named:
            named.add(what)
            out.write(f"{what}\n")
            out.flush()

    return say


def _ignore_progress(what: str, share: float) -> None:
    """Progress that is not shown."""


def list_entries(screen: Screen, name: str, entries: Sequence[str], *, whole: bool = False) -> None:
    """Print entries below each other, the name before the first; ``whole`` keeps each on one line."""
    if entries:
        screen.line()
    for i, entry in enumerate(entries):
        screen.line(entry, lead=f"{name if i == 0 else '':<9}", whole=whole)


def _wrap_text(text: str, width: int) -> list[str]:
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
