"""The first screen in a terminal, and progress: aligned, readable without colour, plain when piped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

from evenhand.core.text import strip_unprintable
from evenhand.core.typing import Progress, ignore_progress
from evenhand.view.notebook import show_in_notebook
from evenhand.view.screen import SHORT, ScreenLine, lay_out, lay_out_short

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.core.document import Document

LONGEST = 110
"""Maximum number of columns: longer lines are hard to read."""


def _print_line(console: Console, line: ScreenLine, width: int) -> None:
    """Print a line, wrapped, with a hanging indent of the width of its lead."""
    from rich.cells import cell_len
    from rich.text import Text

    line = line._replace(lead=_printable(line.lead), text=_printable(line.text))
    for i, part in enumerate(line.wrap(width)):
        lead = (line.lead, line.lead_style) if i == 0 else (" " * cell_len(line.lead), "")
        styled = Text.assemble(lead, (part, line.style))
        console.print(styled, soft_wrap=True, markup=False, highlight=False, emoji=False)


def _printable(text: str) -> str:
    return strip_unprintable(text).replace("\n", " ").replace("\t", " ")


def show_document(
    document: Document, *, written: Sequence[Path] = (), verbose: bool = False, console: Console | None = None
) -> None:
    """Print the screen of a document: its findings, and the paths of the written files.

    Args:
        document: Document.
        written: Written files.
        verbose: Whether all numbers are explained. Otherwise at most 40 lines are printed.
        console: Console. Default: standard output, without colours if it is not a terminal.
    """
    from rich.console import Console

    console = console or Console()
    width = min(console.width, LONGEST)
    files = [ScreenLine()] if written else []
    files += [ScreenLine(str(path), lead=f"{'' if i else 'written':<9}", whole=True) for i, path in enumerate(written)]
    page = next((path for path in written if path.suffix == ".html"), None)
    if page is not None:
        place = shlex.quote(page.resolve().as_uri())
        command = f"{Path(sys.executable).name} -m webbrowser {place}"
        files.append(ScreenLine(command, lead="read it  ", whole=True))
    if verbose:
        lines = list(lay_out(document, width, widest=console.width))
    else:
        lines = lay_out_short(document, width, widest=console.width, room=SHORT - len(files))
    for line in (*lines, *files):
        _print_line(console, line, width)


def in_notebook() -> bool:
    """Check whether this process is the kernel of a notebook, without importing IPython."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(find_shell() if find_shell else None, "kernel", None) is not None


@contextmanager
def show_progress(*, quiet: bool = False, console: Console | None = None) -> Iterator[Progress]:
    """Show a progress bar on standard error while the block runs; in a notebook below the cell; nothing if quiet.

    If standard error is not a terminal, only compilations are announced, once each.

    Yields:
        Progress function: takes the current step and the completed share, 0 to 1.
    """
    if console is None and not quiet and in_notebook():
        with show_in_notebook() as advance_line:
            yield advance_line
        return
    if quiet or not (console.is_terminal if console is not None else sys.stderr.isatty()):
        yield ignore_progress if quiet else _name_compilation(sys.stderr if console is None else console.file)
        return
    from rich import progress as rich_progress
    from rich.console import Console

    bar = rich_progress.Progress(
        rich_progress.BarColumn(bar_width=24),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        console=console or Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)

        def advance(step: str, share: float) -> None:
            bar.update(task, description=strip_unprintable(step), completed=min(1.0, max(0.0, share)))

        yield advance


@contextmanager
def follow_progress(progress: Progress | bool | None = None) -> Iterator[Progress]:
    """Yield the progress function of an analysis. Nothing is shown by default, except in a notebook.

    Args:
        progress: progress function: takes the current step and the completed share, 0 to 1; True: shown as
            with ``show_progress``; False: not shown; None: shown only in a notebook.
    """
    quiet = not (in_notebook() if progress is None else progress)
    with nullcontext(progress) if callable(progress) else show_progress(quiet=quiet) as advance:
        yield advance


def _name_compilation(out: IO[str]) -> Progress:
    named: set[str] = set()

    def say(step: str, share: float) -> None:
        if step.startswith("compiling") and step not in named:
            named.add(step)
            print(step, file=out, flush=True)

    return say
