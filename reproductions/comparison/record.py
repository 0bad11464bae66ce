"""What a reproduction holds: published figures, ours beside them, and the judgement."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from evenhand.core import Result, ResultPart
from evenhand.stats import Proved, Quantity, Unknown

Verdict: TypeAlias = Literal["agrees", "better", "differs", "not compared"]
"""``agrees``: within what chance and rounding explain; ``better``: the published figure is reached and passed."""


class OwnFigure(ResultPart):
    """A figure of ours, in the unit of the published one.

    Attributes:
        value: the figure.
        kind: ``proved``, ``observed`` on given people or runs, ``estimated`` from a random sample, or ``measured``, as
            times and sizes are.
        low, high: its 95 % interval; None without one.
        basis: what it rests on, to be read after its kind: ``on 5,000 people``.
    """

    value: float
    kind: Literal["proved", "observed", "estimated", "measured"]
    low: float | None = None
    high: float | None = None
    basis: str = ""

    @classmethod
    def of_quantity(cls, quantity: Quantity, *, percent: bool, basis: str = "") -> OwnFigure | None:
        """Return a quantity as a figure, shares in percent; None where it is unknown."""
        if isinstance(quantity, Unknown):
            return None
        scale = 100.0 if percent else 1.0
        if isinstance(quantity, Proved):
            return cls(value=scale * quantity.value, kind="proved", basis=basis or quantity.how)
        return cls(
            value=scale * quantity.value,
            kind=quantity.kind,
            low=scale * quantity.low,
            high=scale * quantity.high,
            basis=basis or f"on {quantity.n:,}",
        )


class ComparedFigure(ResultPart):
    """A published figure, and ours.

    Attributes:
        row: the row of the table, or the line of the drawing.
        measure: what is measured, such as ``certified``; all figures of a table with one measure are listed together.
        unit: ``%``, ``s``, or empty for counts and plain numbers. Values are in this unit.
        at: the place on the horizontal axis, for drawings.
        published: the figure of the paper; None where it has none.
        published_text: the published figure as printed, where it is more than a number: ``> 1800``.
        ours: by the published method.
        default: by the method that Evenhand uses unless told otherwise; None where it is the published one.
        verdict: how ours compare.
        because: why, in a sentence; of a figure that differs or is not compared always.
    """

    row: str
    measure: str
    unit: Literal["%", "s", ""] = ""
    at: float | None = None
    published: float | None = None
    published_text: str = ""
    ours: OwnFigure | None = None
    default: OwnFigure | None = None
    verdict: Verdict
    because: str = ""


class ComparedTable(ResultPart):
    """A table or a drawing of a paper.

    Attributes:
        number: as the paper counts them, ``Table II`` or ``Figure 4``.
        title: what it shows.
        text: what is compared and what is not, in a sentence or two.
        figures: one per published figure, and ours where the paper has none.
        verdict: of the whole.
        because: why, in a sentence.
        horizontal: the title of the horizontal axis, where it is a drawing; empty for tables.
        missing: pieces of work that it needs and that were not done.
    """

    number: str
    title: str
    text: str = ""
    figures: tuple[ComparedFigure, ...] = ()
    verdict: Verdict
    because: str = ""
    horizontal: str = ""
    missing: tuple[str, ...] = ()


class PieceRecord(ResultPart):
    """A piece of work that was done.

    Attributes:
        name: which.
        seconds: it took, by the clock.
    """

    name: str
    seconds: float


class PaperReproductionRecord(Result):
    """The tables of a paper, made again.

    Attributes:
        paper: its short name.
        title, published_in: of the paper.
        quick: whether fewer runs or less time were spent than in the paper.
        tables: the published tables and drawings that were asked for, in the paper's order.
        pieces: the work that was done for them.
        wanted: how many pieces there were to be.
        left_out: pieces that could not be done, each with why.
        interrupted: whether somebody stopped it; what is here was complete before.
    """

    kind: Literal["paper"] = "paper"
    paper: str
    title: str
    published_in: str
    quick: bool
    tables: tuple[ComparedTable, ...]
    pieces: tuple[PieceRecord, ...]
    wanted: int
    left_out: dict[str, str] = Field(default_factory=dict)
    interrupted: bool = False
