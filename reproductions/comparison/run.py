"""Make the tables of a paper again: do the pieces they need, and compare."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.core import Document
from evenhand.errors import LimitError
from evenhand.typing import Progress
from evenhand.workers import Workers
from reproductions.comparison.pieces import Paper, PieceContext, PieceStore, run_pieces
from reproductions.comparison.record import ComparedTable, PaperReproductionRecord, PieceRecord
from reproductions.comparison.wording import build_document

if TYPE_CHECKING:
    import pandas as pd


class PaperReproduction(PaperReproductionRecord):
    """The tables of a paper, made again: printed and tabulated."""

    def document(self) -> Document:
        """Return the tables, published figures beside ours."""
        return build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per figure: table, row, measure, published, ours by both methods, verdict, reason."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "table": table.number,
                    "row": figure.row,
                    "measure": figure.measure,
                    "unit": figure.unit,
                    "published": figure.published,
                    "ours": None if figure.ours is None else figure.ours.value,
                    "default": None if figure.default is None else figure.default.value,
                    "verdict": figure.verdict,
                    "because": figure.because,
                }
                for table in self.tables
                for figure in table.figures
            ]
        )


def reproduce_paper(
    paper: Paper,
    *,
    tables: Sequence[str] = (),
    context: PieceContext | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> PaperReproduction:
    """Make the tables of a paper again.

    Args:
        paper: which.
        tables: numbers of tables and drawings, ``II`` or ``figure 4``; by default all.
        context: the effort, the seed, and where data are that are not bundled.
        folder: pieces of the work are kept there, a file each; None: they are not kept.
        resume: go on from the pieces in the folder.
        workers: who does the pieces: a number of processes, or a cluster; the result is the same with any.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there is no such table, or the folder is of another run.
        LimitError: stopped before any piece was done.
    """
    started = time.perf_counter()
    context = PieceContext() if context is None else context
    chosen = paper.choose(tables)
    pieces = paper.plan(chosen, quick=context.quick)
    store = None if folder is None else PieceStore(Path(folder), paper.name, context, resume=resume)
    done, interrupted = run_pieces(
        pieces, context, store=store, workers=workers, progress=progress or (lambda what, share: None)
    )
    if interrupted and not done:
        raise LimitError("the reproduction was stopped before any piece of it was complete")
    values = {name: one.values for name, one in done.items() if one.values is not None}
    compared: list[ComparedTable] = []
    for table in chosen:
        wanted = [piece.name for piece in paper.pieces if table.number in piece.tables]
        missing = tuple(name for name in wanted if name not in values)
        compared.append(table.compare(values).model_copy(update={"missing": missing}))
    return PaperReproduction(
        seed=context.seed,
        seconds=time.perf_counter() - started,
        paper=paper.name,
        title=paper.title,
        published_in=paper.published_in,
        quick=context.quick,
        tables=tuple(compared),
        pieces=tuple(PieceRecord(name=name, seconds=round(one.seconds, 1)) for name, one in done.items()),
        wanted=len(pieces),
        left_out={name: one.missing for name, one in done.items() if one.values is None},
        interrupted=interrupted,
    )
