"""What all reproductions share: pieces of work that are kept, and tables with published figures beside ours."""

from reproductions.comparison.pieces import (
    Paper,
    Piece,
    PieceContext,
    PublishedTable,
    Values,
    judge,
    summarize_verdicts,
)
from reproductions.comparison.record import ComparedFigure, ComparedTable, OwnFigure, Verdict
from reproductions.comparison.run import PaperReproduction, reproduce_paper

__all__ = [
    "ComparedFigure",
    "ComparedTable",
    "OwnFigure",
    "Paper",
    "PaperReproduction",
    "Piece",
    "PieceContext",
    "PublishedTable",
    "Values",
    "Verdict",
    "judge",
    "reproduce_paper",
    "summarize_verdicts",
]
