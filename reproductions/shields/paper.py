"""The paper as a whole: every table and figure, and the pieces of work for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reproductions.comparison import ComparedTable, Paper, Piece, PublishedTable
from reproductions.shields import pieces, published
from reproductions.shields.cells import ABOUT, SHORT, Found
from reproductions.shields.classifiers import CLASSIFIERS
from reproductions.shields.environments import ENVIRONMENTS
from reproductions.shields.figures import (
    compare_assumed,
    compare_cost,
    compare_periods,
    compare_spread,
    compare_synthesis,
    compare_thresholds,
)
from reproductions.shields.pieces import PROPERTIES
from reproductions.shields.tables import (
    compare_bias,
    compare_classifiers,
    compare_losses,
    compare_people,
    compare_rates,
)


def _leave_out(number: str, because: str, found: Found) -> ComparedTable:
    title, text = ABOUT[number]
    return ComparedTable(number=number, title=title, text=text, verdict="not compared", because=because)


COMPARISONS: dict[str, Callable[[Found], ComparedTable]] = {
    "Figure 1": partial(_leave_out, "Figure 1", "it is a diagram"),
    "Table 1": partial(_leave_out, "Table 1", "it defines properties and has no figures"),
    "Table 2": compare_rates,
    "Table 3": compare_losses,
    "Table 4": compare_people,
    "Tables 5 to 8": compare_classifiers,
    "Table 9": compare_bias,
    "Figure 2": partial(_leave_out, "Figure 2", "it and its paragraph are lost; Table 9 has the numbers"),
    "Figure 3": compare_synthesis,
    "Figure 4": compare_cost,
    "Figure 5": partial(_leave_out, "Figure 5", "it is a picture, whose numbers are those of Table 9"),
    "Figure 6": partial(compare_spread, "Figure 6"),
    "Figure 7": partial(compare_spread, "Figure 7"),
    "Figure 8": partial(_leave_out, "Figure 8", "it is a picture; our runs record the total of right decisions only"),
    "Figure 9": compare_periods,
    "Figure 10": compare_assumed,
    "Figure 11": compare_thresholds,
}  # fmt: skip

_CLASSIFIED = ("Table 3", "Tables 5 to 8", "Table 9", "Figure 4", "Figure 6", "Figure 7", "Figure 11")
_PERIODIC = ("Table 2", "Table 4", "Figure 9", "Figure 10")
"""Tables that take every classifier, and those for which the one that is trained for accuracy alone does."""


def piece_name(*parts: str) -> str:
    """Return the name of a piece of some parts.

    >>> piece_name("adult, race", "ERM")
    'adult-race-ERM'
    """
    return "-".join(part.replace(", ", "-") for part in parts)


def _needs(number: str) -> str:
    if number in _CLASSIFIED:
        return "COMPAS and Bank, which are fetched; torch for four of the classifiers"
    return "COMPAS and Bank, which are fetched" if number in _PERIODIC else ""


PAPER = Paper(
    name="shields",
    title="Fairness Shields: Safeguarding against Biased Decision Makers",
    published_in=published.WHERE,
    tables=tuple(
        PublishedTable(number, ABOUT[number][0], compare, _needs(number)) for number, compare in COMPARISONS.items()
    ),
    pieces=(
        *(
            Piece(
                piece_name(environment.name, name),
                (*_CLASSIFIED, *(_PERIODIC if name == pieces.ACCURATE else ())),
                partial(pieces.run_classifier, environment.name, name),
                minutes=0.7 if name == pieces.ACCURATE else 0.2,
                quick_minutes=0.2 if name == pieces.ACCURATE else 0.15 * (environment.dataset == "german"),
            )
            for name in CLASSIFIERS
            for environment in ENVIRONMENTS
        ),
        *(
            Piece(
                piece_name("synthesis", SHORT[kept].lower()),
                ("Figure 3",),
                partial(pieces.time_synthesis, kept),
                minutes=0.1,
                quick_minutes=0.05,
            )
            for kept in PROPERTIES
        ),
    ),
)
"""The paper with its tables, its drawings and the pieces of work behind them."""
