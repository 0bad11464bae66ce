"""Figures of ours from several runs, with intervals, and what all tables of MAFT say the same way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from evenhand.stats import student_quantile
from reproductions.comparison import ComparedFigure, OwnFigure, Values, Verdict
from reproductions.maft.benchmarks import CHECKED_OUT

NOT_HERE = "network and people are not bundled: a checkout of the authors' repository brings them"
NEEDS = "a checkout of wangzh1998/MAFT for four of the benchmarks"
DRAWN = "the paper draws it and prints no number"
RERUN = "a run of the authors' program, not a published figure"


def half_width(values: Sequence[float], *, single: bool = False) -> float:
    """Return half the 95 % interval of a mean by Student's t; of a further single value with ``single``."""
    n = len(values)
    if n < 2:
        return 0.0
    spread = float(np.std(values, ddof=1)) * math.sqrt(1 / n + (1 if single else 0))
    return float(student_quantile(0.95, n - 1)) * spread


def average(
    values: Sequence[float], *, kind: Literal["observed", "measured"] = "observed", basis: str = ""
) -> OwnFigure:
    """Return the mean of some counts or shares, with its interval, cut at 0, where there are two runs or more."""
    mean, half = float(np.mean(values)), half_width(values)
    runs = f"{len(values)} run" + "s" * (len(values) > 1)
    return OwnFigure(
        value=round(mean, 4),
        kind=kind,
        low=round(max(mean - half, 0.0), 4) if half else None,
        high=round(mean + half, 4) if half else None,
        basis=f"{basis}, {runs}" if basis else f"in {runs}",
    )


def plain(value: float, *, kind: Literal["observed", "measured"] = "observed", basis: str = "") -> OwnFigure:
    """Return a number of ours without an interval."""
    return OwnFigure(value=round(value, 4), kind=kind, basis=basis)


def claim(row: str, measure: str, text: str, ours: OwnFigure, *, holds: bool, because: str) -> ComparedFigure:
    """Compare a statement of the text with a figure of ours: it holds, or it does not, because of something."""
    verdict: Verdict = "agrees" if holds else "differs"
    return ComparedFigure(
        row=row, measure=measure, published_text=text, ours=ours, verdict=verdict, because="" if holds else because
    )


def join_reasons(figures: Sequence[ComparedFigure]) -> str:
    """Return why figures of a table differ, each reason once, as a sentence; empty if none does."""
    reasons = "; ".join(dict.fromkeys(one.because for one in figures if one.verdict == "differs"))
    return reasons and f"{reasons}."


def pieces_of(values: Mapping[str, Values], kind: str) -> dict[str, Values]:
    """Return what pieces of one kind found, by their benchmark."""
    return {name.removeprefix(f"{kind}-"): found for name, found in values.items() if name.startswith(f"{kind}-")}


def absent_rows(found: Mapping[str, Values], measure: str, *, method: str = "") -> list[ComparedFigure]:
    """Return a row for each benchmark that needs a checkout of the authors' repository and was not run."""
    return [
        ComparedFigure(
            row=f"{name}, {method}" if method else name, measure=measure, verdict="not compared", because=NOT_HERE
        )
        for name in CHECKED_OUT
        if name not in found
    ]


def column(runs: Sequence[Values], name: str) -> list[float]:
    """Return a count of several runs."""
    return [float(run[name]) for run in runs]
