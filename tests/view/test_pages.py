"""The page of every result stands alone, and its screen fits any width."""

import io
import re

import examples
import pytest
from page import Page, foreign_scripts
from pictured import PICTURED, document
from rich.cells import cell_len
from rich.console import Console

from evenhand import view

def shown(name):
    return examples.minimal().document() if name == "interrupted" else document(name)


@pytest.mark.parametrize("name", [*PICTURED, "interrupted"])
def test_a_page_stands_alone(name):
    html = view.render_page(shown(name))
    assert html == view.render_page(shown(name))
    assert not re.search(r'(href|src)="(?!#|data:)', html)
    assert len(html) < 1_000_000
    root = Page(html).root
    assert foreign_scripts(root) == []
    links = [link.attributes["href"] for link in root.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in root.one("main").all("section")]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    ("name", "width"),
    [
        *((name, width) for name in [*PICTURED, "interrupted"] for width in (80, 200)),
        *((name, 60) for name in ("audit", "interrupted", "search", "grades", "mitigation")),
    ],
)
def test_a_screen_fits_and_has_nothing_but_text(name, width, verbose):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(shown(name), verbose=verbose, console=console)
    for line in console.file.getvalue().splitlines():
        assert cell_len(line) <= width
        assert "\x1b" not in line
        if name in ("audit", "interrupted"):
            assert line == line.rstrip()
            assert not line.strip().startswith("%")  # a number keeps its unit
