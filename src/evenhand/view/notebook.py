"""Progress in a notebook: one line that is updated in place while a call runs, and removed when it ends."""

from __future__ import annotations

import contextvars
import importlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from evenhand.core.text import format_duration, strip_unprintable
from evenhand.core.typing import Progress

DELAY = 1.0
"""Seconds before a line appears: a quick call shows nothing."""

EVERY = 0.5
"""Seconds between two updates of the line."""


@contextmanager
def show_in_notebook() -> Iterator[Progress]:
    """Show a progress bar below the cell while the block runs.

    The line is drawn by a thread, so that it also appears, with the seconds that have passed, if the work reports
    nothing for a while.

    Yields:
        Progress function: takes the current step and the completed share, 0 to 1.
    """
    line = _ProgressLine()
    # The kernel stores the cell that an output belongs to in a context variable.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(line.draw_until_done,), name="evenhand-progress", daemon=True)
    thread.start()
    try:
        yield line.advance
    finally:
        line.done.set()
        thread.join()
        line.clear()


class _ProgressLine:
    """Current step, and the output of the cell that shows it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._state = ("starting", 0.0)
        self._began = time.monotonic()
        self._handle: Any = None

    def advance(self, step: str, share: float) -> None:
        """Store the current step, which the thread shows."""
        self._state = (strip_unprintable(step), min(1.0, max(0.0, share)))

    def draw_until_done(self) -> None:
        """Draw the line after a delay, and redraw it until the work is done."""
        wait = DELAY
        while not self.done.wait(wait):
            self._draw()
            wait = EVERY

    def clear(self) -> None:
        """Clear the line, if there is one."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def _draw(self) -> None:
        step, share = self._state
        status = f"{100 * share:.0f} %, {format_duration(time.monotonic() - self._began)}: {step}"
        bar = f'<progress max="1" value="{share:.3f}" aria-label="progress"></progress>'
        bundle = {"text/plain": status, "text/html": f"{bar} {escape(status)}"}
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").DisplayHandle()
            self._handle.display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)
