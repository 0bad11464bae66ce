"""What the pages of all reproductions share: the reports' frame around a template of their own, and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evenhand import charts
from evenhand.report.html import NARROW, WIDE, Figure, environment

if TYPE_CHECKING:
    import jinja2

Found = TypeVar("Found")


@cache
def templates(folder: Path) -> jinja2.Environment:
    """The templates of a folder, over those that all pages share."""
    import jinja2

    shared = environment()
    assert shared.loader is not None
    return shared.overlay(loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder), shared.loader]))


def figure(name: str, draw: Callable[..., charts.Spec], found: Found) -> Figure:
    """A chart of a result for wide and for narrow screens."""
    return Figure(
        wide=charts.svg(draw(found, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(found, width=NARROW), name=f"{name}-narrow"),
    )
