#!/usr/bin/env python3
"""Run a command in a terminal and draw the terminal as SVG: its end as a still, or everything that happened, animated.

    tools/record_terminal.py OUT.svg COMMAND             animated, with the pauses shortened
    tools/record_terminal.py --still OUT.svg COMMAND     the screen at the end
    tools/record_terminal.py --columns 80 --rows 24 OUT.svg COMMAND

The output is what the command writes to a pseudo-terminal, and so are the moments, except that nothing stands still for
longer than ``PAUSE`` seconds. What is longer than the window is leafed through at the end. Nothing is loaded from
elsewhere: letters are the reader's, stretched to their cells. Readers who ask for reduced motion see the end.
Needs pyte.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyte

COLUMNS, ROWS = 96, 30
PAUSE = 0.35
"""Seconds that the screen may stand still, not counting a clock that runs on."""

READ = 2.3
"""Seconds for each screenful of what is longer than the window."""

SCROLLBACK = 400
CELL_WIDTH, CELL_HEIGHT, SIZE = 8.4, 18, 14
MARGIN, BAR = 16, 34

BACKGROUND, FOREGROUND = "#16191d", "#e6e8eb"
COLOURS = {
    "black": "#5b6470",
    "red": "#f28b82",
    "green": "#81c995",
    "brown": "#fdd663",
    "blue": "#8ab4f8",
    "magenta": "#c58af9",
    "cyan": "#78d9ec",
    "white": "#e6e8eb",
    "brightblack": "#8a94a3",
    "brightred": "#f6aea9",
    "brightgreen": "#a8dab5",
    "brightbrown": "#fde293",
    "brightblue": "#aecbfa",
    "brightmagenta": "#d7aefb",
    "brightcyan": "#a1e4f2",
    "brightwhite": "#ffffff",
}

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


@dataclass(frozen=True)
class Span:
    """Neighbouring cells of one look."""

    column: int
    text: str
    colour: str
    bold: bool
    italic: bool


Line = tuple[Span, ...]


@dataclass(frozen=True)
class Recording:
    """What a command showed: the screen after each change, as lines from the first one that it wrote."""

    moments: Sequence[float]
    screens: Sequence[tuple[Line, ...]]
    columns: int


def record(
    command: str, folder: Path, environment: Mapping[str, str], columns: int, hidden: Mapping[str, str]
) -> Recording:
    """Run a command in a terminal so wide; texts in ``hidden``, such as the folder's path, are shown as others."""
    import pyte

    main_end, terminal_end = pty.openpty()
    fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, struct.pack("HHHH", SCROLLBACK, columns, 0, 0))
    settings = {**environment, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(SCROLLBACK)}
    screen = pyte.Screen(columns, SCROLLBACK)
    stream = pyte.ByteStream(screen)
    moments: list[float] = []
    screens: list[tuple[Line, ...]] = []
    with subprocess.Popen(
        ["bash", "-ec", command], cwd=folder, env=settings, stdin=terminal_end, stdout=terminal_end, stderr=terminal_end
    ) as running:
        os.close(terminal_end)
        begun = time.monotonic()
        for some in _read(main_end):
            for secret, shown in hidden.items():
                some = some.replace(secret.encode(), shown.encode())
            stream.feed(some)
            lines = tuple(_read_line(screen, row) for row in range(SCROLLBACK))
            while lines and not lines[-1]:
                lines = lines[:-1]
            if not screens or lines != screens[-1]:
                moments.append(time.monotonic() - begun)
                screens.append(lines)
    os.close(main_end)
    if running.returncode:
        raise SystemExit(f"{command}: exit code {running.returncode}\n" + "\n".join(screen.display).rstrip())
    return Recording(moments, screens, columns)


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            some = os.read(terminal, 1 << 16)
        except OSError:  # the command has closed its end
            return
        if not some:
            return
        yield some


def _read_line(screen: pyte.Screen, row: int) -> Line:
    cells = screen.buffer[row]
    spans: list[Span] = []
    for column in range(screen.columns):
        cell = cells[column]
        look = (_colour(cell.fg), bool(cell.bold), bool(cell.italics))
        last = spans[-1] if spans else None
        if last and (last.colour, last.bold, last.italic) == look:
            spans[-1] = Span(last.column, last.text + cell.data, *look)
        else:
            spans.append(Span(column, cell.data, *look))
    found = []
    for span in spans:
        text = span.text.strip(" ")
        if text:
            column = span.column + len(span.text) - len(span.text.lstrip(" "))
            found.append(Span(column, text, span.colour, span.bold, span.italic))
    return tuple(found)


def _colour(name: str) -> str:
    if name == "default":
        return FOREGROUND
    return COLOURS.get(name) or f"#{name}"


def draw_still(found: Recording, title: str, command: str, rows: int | None = None) -> str:
    """Draw the command and the screen at its end: all of it, or its first rows."""
    lines = [_type(command), *found.screens[-1]][:rows]
    body = [_draw_line(line, row) for row, line in enumerate(lines)]
    return _draw_window(body, "", title, found.columns, len(lines))


def draw_animation(found: Recording, title: str, command: str, rows: int) -> str:
    """Draw everything that happened, under the command that is typed first."""
    typed = [(0.4 + 0.045 * n, _type(command[:n])) for n in range(len(command) + 1)]
    start = typed[-1][0] + 0.5
    moments = [start + moment for moment in shorten_pauses(found)]
    last = found.screens[-1]
    # One line is one row of a tall page, of which the window shows a part.
    history: list[list[tuple[float, Line]]] = [typed]
    for row in range(max(len(screen) for screen in found.screens)):
        changes: list[tuple[float, Line]] = []
        for at, screen in zip(moments, found.screens, strict=True):
            line = screen[row] if row < len(screen) else ()
            if line != (changes[-1][1] if changes else ()):
                changes.append((at, line))
        history.append(changes)
    scrolled = max(0, len(last) + 1 - rows)
    leaves = [min(scrolled, row) for row in range(0, scrolled + rows - 2, rows - 1)]
    seconds = moments[-1] + READ * len(leaves)
    body, rules, named = [], [], {}
    for row, changes in enumerate(history):
        for position, (at, line) in enumerate(changes):
            if not line:
                continue
            until = changes[position + 1][0] if position + 1 < len(changes) else None
            span = (round(100 * at / seconds, 2), None if until is None else round(100 * until / seconds, 2))
            if span not in named:
                named[span] = f"k{len(named)}"
                end = "" if span[1] is None else f"{span[1]}%{{opacity:0}}"
                rules.append(f"@keyframes {named[span]}{{0%{{opacity:0}}{span[0]}%{{opacity:1}}{end}}}")
                rules.append(f".{named[span]}{{animation-name:{named[span]}}}")
            body.append(_draw_line(line, row, f"{named[span]} {'f' if until is None else 'p'}"))
    steps = "".join(
        f"{round(100 * (moments[-1] + READ * n) / seconds, 2)}%{{transform:translateY({-row * CELL_HEIGHT}px)}}"
        for n, row in enumerate(leaves)
    )
    style = (
        f"text{{animation:0s step-end infinite;animation-duration:{seconds:.1f}s}}"
        f"#all{{animation:up {seconds:.1f}s step-end infinite}}"
        f"@keyframes up{{0%{{transform:translateY(0)}}{steps}}}"
        f"@media (prefers-reduced-motion:reduce){{text,#all{{animation:none}}.p{{display:none}}"
        f"#all{{transform:translateY({-scrolled * CELL_HEIGHT}px)}}}}" + "".join(rules)
    )
    return _draw_window(['<g id="all">', *body, "</g>"], style, title, found.columns, rows)


def _type(command: str) -> Line:
    prompt = Span(0, "$", COLOURS["green"], True, False)
    return (prompt, Span(2, command, FOREGROUND, True, False)) if command else (prompt,)


def shorten_pauses(found: Recording) -> list[float]:
    """Return the moments with less waiting: a stretch in which only digits and bars change lasts ``PAUSE`` at most."""
    shown = [re.sub(r"[\d━╸╺]+", "", _text(screen)) for screen in found.screens]
    moments: list[float] = []
    now, start = 0.0, 0
    for position in range(1, len(shown) + 1):
        if position < len(shown) and shown[position] == shown[start]:
            continue
        begun = found.moments[start]
        end = found.moments[position] if position < len(shown) else found.moments[-1]
        factor = min(1.0, PAUSE / (end - begun)) if end > begun else 1.0
        moments += [now + factor * (moment - begun) for moment in found.moments[start:position]]
        now += factor * (end - begun)
        start = position
    return moments


def _text(lines: Sequence[Line]) -> str:
    return "\n".join(" ".join(span.text for span in line) for line in lines)


def _draw_line(line: Line, row: int, css: str = "") -> str:
    spans = []
    for span in line:
        look = "" if span.colour == FOREGROUND else f' fill="{span.colour}"'
        look += ' font-weight="700"' if span.bold else ""
        look += ' font-style="italic"' if span.italic else ""
        x, width = MARGIN + span.column * CELL_WIDTH, len(span.text) * CELL_WIDTH
        spans.append(f'<tspan x="{x:.5g}" textLength="{width:.5g}"{look}>{escape(span.text, quote=False)}</tspan>')
    named = f' class="{css}"' if css else ""
    return f'<text{named} y="{row * CELL_HEIGHT + SIZE}">{"".join(spans)}</text>'


def _draw_window(body: Sequence[str], style: str, title: str, columns: int, rows: int) -> str:
    width, height = round(columns * CELL_WIDTH + 2 * MARGIN), rows * CELL_HEIGHT + BAR + MARGIN
    buttons = "".join(f'<circle cx="{20 + 18 * n}" cy="17" r="5" fill="#3c434c"/>' for n in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}</title>"
        f"<style>text{{font:{SIZE}px {FONT};fill:{FOREGROUND};white-space:pre}}"
        f"tspan{{letter-spacing:0}}{style}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>{buttons}'
        f'<svg y="{BAR}" width="{width}" height="{rows * CELL_HEIGHT}" xml:space="preserve">\n'
        + "\n".join(body)
        + "\n</svg></svg>\n"
    )


def main() -> None:
    """Record the command given, in this folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--still", action="store_true", help="draw the screen at the end")
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the animated window")
    parser.add_argument("out", type=Path)
    parser.add_argument("command")
    given = parser.parse_args()
    found = record(given.command, Path.cwd(), os.environ, given.columns, {})
    if given.still:
        drawn = draw_still(found, given.command, given.command)
    else:
        drawn = draw_animation(found, given.command, given.command, given.rows)
    given.out.write_text(drawn, "utf-8")


if __name__ == "__main__":
    main()
