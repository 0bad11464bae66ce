"""Render a document as a self-contained HTML page, or as a fragment for notebooks.

A page needs no network, and is readable without its script, which sorts and filters tables. Its Content Security
Policy lets no other script run. A fragment has none.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import __version__
from evenhand.core.document import Block, Document, Figure, Metric, Table, Text
from evenhand.core.text import format_count, format_level, strip_unprintable
from evenhand.view.charts import DrawnFigure, draw
from evenhand.view.drawing.axis import NARROW_PERCENT
from evenhand.view.drawing.theme import LIGHT, dark_stylesheet

if TYPE_CHECKING:
    import jinja2


SHAPES = {
    "circle": "M-4.4 0A4.4 4.4 0 1 1 4.4 0A4.4 4.4 0 1 1-4.4 0Z",
    "diamond": "M0-5.4L4.6 0L0 5.4L-4.6 0Z",
    "tick": "M0-7.5V7.5",
    "heavy": "M0-13V13",
}
"""SVG paths of marks, relative to their centre."""


SCRIPT = (Path(__file__).parent / "templates" / "page.js").read_text("utf-8")
SCRIPT_HASH = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
"""Hash of the script of every page, for servers that send a Content Security Policy."""

LETTER = 6.67
"""Width of a digit in the font of charts, in pixels. Widths measured in digits also fit names in other fonts."""

_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|kB|MB)\b)")


def _finalize_value(value: object) -> object:
    """Make a text printable, and keep numbers and their units on one line."""
    if type(value) is not str:
        return value
    return _UNIT.sub("\N{NO-BREAK SPACE}", strip_unprintable(value).replace(" %", NARROW_PERCENT))


@cache
def template_environment() -> jinja2.Environment:
    """Return the templates, with the texts and constants that they use."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize_value,
    )
    environment.globals |= {"ink": LIGHT, "shapes": SHAPES}
    environment.filters |= {
        "grouped": group_blocks,
        "by_subject": group_by_subject,
        "can_sort": can_sort,
        "rows_left_out": say_rows_left_out,
        "place": lambda percent: f"{percent:.2f}%",
        "letters": lambda pixels: f"{pixels / LETTER:.1f}ch",
        "kind_of": lambda mark: type(mark).__name__,
        "level": format_level,
        "count": format_count,
    }
    return environment


NARROW_TABLE = 3
"""Maximum number of columns of tables that share a row."""

KINDS = {
    "observed": "counted in the data; its interval is for the population that the data were sampled from",
    "estimated": "from a random sample; the true number lies in the interval with the stated confidence",
    "proved": "follows from the model itself, without sampling",
}
"""Meaning of the kinds of numbers."""


def render_page(document: Document) -> str:
    """Render a document as the text of one HTML file. Equal documents give equal texts."""
    page = template_environment().get_template("document.html")
    styles = dark_stylesheet()
    html = page.render(_context(document), chart_styles=styles, script=SCRIPT, script_hash=SCRIPT_HASH)
    return str(html).lstrip()


def render_fragment(document: Document) -> str:
    """Render a document as HTML that can be embedded in another page; its styles apply only to itself."""
    page = template_environment().get_template("fragment.html")
    return str(page.render(_context(document), styles=_fragment_styles())).strip()


def group_blocks(blocks: Sequence[Block]) -> list[tuple[str, list[Block]]]:
    """Group consecutive metrics, pairs, and narrow tables, and findings with the figure that follows them."""
    groups: list[tuple[str, list[Block]]] = []
    for block in blocks:
        name = type(block).__name__
        if isinstance(block, Figure) and groups and block.chart == "overview":
            finding = groups[-1][1][-1]
            if isinstance(finding, Text) and finding.role == "finding":
                groups[-1] = ("Overview", [finding, block])
                continue
        alike = bool(groups) and groups[-1][0] == name
        if alike and (name in ("Metric", "Pair") or (_narrow(block) and _narrow(groups[-1][1][0]))):
            groups[-1][1].append(block)
        else:
            groups.append((name, [block]))
    return groups


def _narrow(block: Block) -> bool:
    return isinstance(block, Table) and not block.tiles and len(block.columns) <= NARROW_TABLE


def say_rows_left_out(table: Table) -> str:
    """Describe the rows that a page leaves out; empty if it shows all."""
    if len(table.rows) <= table.page_rows:
        return ""
    shown_rows, every = (sum(not row.heading for row in rows) for rows in (table.rows[: table.page_rows], table.rows))
    order = f", {table.order}" if table.order else ""
    return f". The first {shown_rows} of {every:,} rows{order}; all of them are in the JSON"


def can_sort(table: Table) -> bool:
    """Check that a table can be sorted: it has several rows, and none is nested."""
    return sum(not row.heading for row in table.rows) > 1 and not any(row.indent for row in table.rows)


def group_by_subject(metrics: Sequence[Metric]) -> list[tuple[str, list[Metric]]]:
    """Group answers about the same subject, in their order."""
    return [(about, list(own)) for about, own in groupby(metrics, lambda metric: metric.about)]


def _context(document: Document) -> dict[str, Any]:
    opening, sections = document.sections()
    answers = [block for block in opening if isinstance(block, Metric)]
    notes = " ".join(note for answer in answers for note in answer.notes)
    used = {answer.number.kind for answer in answers} | set(re.findall(r"\w+", notes))
    repeats: dict[str, int] = {}

    def draw_figure(figure: Figure) -> DrawnFigure:
        name = re.sub(r"\W+", "-", figure.chart)
        repeats[name] = repeats.get(name, 0) + 1
        return draw(figure, f"{name}-{repeats[name]}")

    return {
        "document": document,
        "lead": document.opening_lines,
        "opening": opening,
        "sections": [
            (
                heading.anchor or re.sub(r"[^a-z0-9]+", "-", heading.text.lower()).strip("-") or "section",
                heading.text,
                blocks,
            )
            for heading, blocks in sections
        ],
        "kinds": [(kind, meaning) for kind, meaning in KINDS.items() if kind in used],
        "draw": draw_figure,
        "version": __version__,
    }


@cache
def _fragment_styles() -> str:
    text = (Path(__file__).parent / "templates" / "style.css").read_text("utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{dark_stylesheet()}\n}}"
    own = (
        ".evenhand-result { background: var(--paper); color: var(--ink); padding: 1rem; max-width: 60rem; "
        "overflow-wrap: break-word; "
        'font: 15px/1.5 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }\n'
        ".evenhand-result .title { font-size: 1.375rem; font-weight: 700; }\n"
    )
    return own + scope_styles(f"{text}\n{dark}", ".evenhand-result")


def scope_styles(text: str, root: str) -> str:
    """Return a style sheet whose rules apply only below one element; ``:root`` becomes that element.

    Rules may be nested in ``@media``; strings with braces may not be in it.
    """

    def scope_rule(match: re.Match[str]) -> str:
        selectors = [selector.strip() for selector in match[1].split(",")]
        if selectors[0].startswith("@"):
            return f"\n{match[0]}"
        scoped = (root if selector == ":root" else f"{root} {selector}" for selector in selectors)
        return f"\n{', '.join(scoped)} {{"

    return re.sub(r"([^{};]+)\{", scope_rule, re.sub(r"/\*.*?\*/", "", text, flags=re.S))
