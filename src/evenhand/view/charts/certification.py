"""Certificates as bars (same, undecided, different), and what was still undecided over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand.certification import AttributeSlice, Certificate
from evenhand.checker import CertificateCheck
from evenhand.text import SIMULATED, format_percent
from evenhand.view import drawing
from evenhand.view.drawing import Axis, Bar, Block, Dot, Mark, Panel, Row, RowChart, Series, Span, StepChart, Tick

if TYPE_CHECKING:
    import altair as alt


SHARE_PARTS = (
    ("certified", "certified fair: the same decision", "same"),
    ("undecided", "undecided", "open"),
    ("falsified", "certified unfair: different decisions", "different"),
)
"""Parts of a bar from left to right: field, name, role of the colour."""

HEIGHT = 28
"""Pixels of a row."""

SHORTEST = 1e-3
"""Seconds: where the axis of time begins at the earliest."""


def plot_certificate(result: Certificate) -> alt.TopLevelMixin:
    """Plot what is proved and estimated; how the undecided share fell, if that took steps; and where the rest lies."""
    parts: list[RowChart | StepChart] = [draw_shares([result])]
    if len(result.history) > 1:
        parts.append(draw_history([result]))
    if informative_attributes(result):
        parts.append(draw_slices(result))
    return drawing.to_altair(drawing.stack_charts(parts, " ".join(part.description for part in parts)))


def draw_shares(certificates: Sequence[Certificate]) -> RowChart:
    """Draw one bar per certificate; below, the right end of the bars enlarged where nearly all of it is one colour.

    The upright marker is where the estimate, ``estimate.unfair``, puts the border between the same and different
    decisions, with its interval. Who has no counterpart is left out at the right end.
    """
    blocks = [_share_bars(certificates, 0.0, f"Share of {SIMULATED}")]
    widest = max(max(1 - one.certified, one.estimate.high) for one in certificates)
    if 0 < widest <= 0.5:
        start = 1 - _round_up(1.08 * widest)
        blocks.append(
            _share_bars(certificates, start, f"The last {100 * (1 - start):.3g} % of the same bars, enlarged")
        )
    parts = [
        f"{_certificate_name(one)}: certified fair {format_percent(one.certified)}, undecided "
        f"{format_percent(one.undecided)}, "
        f"certified unfair {format_percent(one.falsified)}, estimated different {format_percent(one.estimate.unfair)}"
        for one in certificates
    ]
    return RowChart(
        f"Proved shares of {SIMULATED}. {'; '.join(parts)}.",
        tuple(blocks),
        tuple((role, part) for _, part, role in SHARE_PARTS),
    )


def plot_check(result: CertificateCheck) -> alt.TopLevelMixin:
    """Plot one bar: what is certified fair, undecided and certified unfair, added up again."""
    return drawing.to_altair(draw_check(result))


def draw_check(result: CertificateCheck) -> RowChart:
    """Draw one bar of the three shares that a checked certificate holds; none if it was rejected."""
    shares = (("certified", result.certified), ("undecided", result.undecided), ("falsified", result.falsified))
    roles = {name: role for name, _, role in SHARE_PARTS}
    marks, at = [], 0.0
    for name, share in shares:
        if share:
            marks.append(Bar(at, at + share, roles[name]))
            at += share
    axis = drawing.spread(0.0, 1.0, drawing.percentages, about=4, whole=True)
    row = Row(" x ".join(result.protected) or "rejected", (tuple(marks),))
    said = ", ".join(f"{name} {format_percent(share)}" for name, share in shares if share is not None)
    return RowChart(
        f"Certificate {result.verdict}: {said or 'no shares'}.",
        (Block(rows=(row,), panels=(Panel(axis),), names=160, height=HEIGHT),),
        tuple((role, part) for _, part, role in SHARE_PARTS),
    )


def draw_history(certificates: Sequence[Certificate]) -> StepChart:
    """Draw what was still undecided after so many seconds, from the first proof on, one line per certificate.

    Time is logarithmic, since most is proved early and the rest slowly. So are the shares once less than a tenth is
    undecided: a line that falls to the lower edge has nothing left to decide.
    """
    lines = [(_certificate_name(certificate), _undecided_over_time(certificate)) for certificate in certificates]
    shares = [share for _, points in lines for _, share in points]
    y = Axis(0.0, 1.0, tuple((tick, f"{100 * tick:.6g}%") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)))
    if min(shares) < 0.1:
        least = min((share for share in shares if share > 1e-9), default=0.1)
        floor = min(0.1, 10.0 ** math.floor(math.log10(least)))
        y = drawing.ratios(floor, 1.0, lambda ticks: [f"{100 * tick:.6g}%" for tick in ticks])
    ends = "; ".join(
        f"{_certificate_name(one)}: {format_percent(one.undecided)} after {one.seconds:.1f} seconds"
        for one in certificates
    )
    seconds = [at for _, points in lines for at, _ in points]
    return StepChart(
        f"Share still undecided over time, from the first proof. At the end: {ends}.",
        tuple(Series(name, tuple((at, max(y.low, share)) for at, share in points)) for name, points in lines),
        x=drawing.ratios(min(seconds), max(max(seconds), 1.01 * min(seconds)), drawing.plain),
        y=y,
        x_title="seconds",
        y_title="undecided",
    )


def _undecided_over_time(certificate: Certificate) -> list[tuple[float, float]]:
    """Return when how much was undecided: once something was proved, or as it was all the time."""
    proved = [at for at in certificate.history if at.certified + at.falsified > 0] or certificate.history
    return [(max(at.seconds, SHORTEST), 1 - at.certified - at.falsified - certificate.no_counterpart) for at in proved]


def _certificate_name(certificate: Certificate) -> str:
    return " x ".join(certificate.protected)


def _round_up(share: float) -> float:
    """Return the next of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(share))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= share * (1 - 1e-9))


def _share_bars(certificates: Sequence[Certificate], start: float, title: str) -> Block:
    axis = drawing.spread(start, 1.0, drawing.percentages)
    rows = tuple(Row(_certificate_name(certificate), (_marks(certificate, start),)) for certificate in certificates)
    return Block(rows=rows, panels=(Panel(axis),), title=title, place="above", height=HEIGHT)


def _marks(certificate: Certificate, start: float) -> tuple[Mark, ...]:
    """Return the parts of a bar right of ``start``, and across them the estimate with its interval."""
    found: list[Mark] = []
    left = 0.0
    for field, _, role in SHARE_PARTS:
        right = left + float(getattr(certificate, field))
        if right > max(start, left):
            found.append(Bar(max(start, left), right, role))
        left = right
    estimate, end = certificate.estimate, 1 - certificate.no_counterpart
    found.append(Span(max(start, end - estimate.high), max(start, end - estimate.low), "ink"))
    if end - estimate.unfair >= start:
        found.append(Tick(end - estimate.unfair, heavy=True))
    return tuple(found)


# Certificates attribute by attribute: among whom decisions differ, and whom the proof left open.

MAX_PANELS = 4
"""Attributes that are drawn: those whose values differ most."""
MIN_SAMPLED = 100
"""People behind an estimate whose whole interval has room in the picture."""
SLICE_HEIGHT = 20
"""Pixels of a row."""
PARTS = {"left open by the proof, about": "open", "estimated different, with interval": "different"}


def informative_attributes(certificate: Certificate) -> list[str]:
    """The attributes whose values differ most in what is unfair or undecided, beyond chance; the first differs most."""
    by = {
        name: [one for one in certificate.slices if one.attribute == name] for name in _slice_names(certificate.slices)
    }
    if all(one.estimate.unfair == 0 and one.undecided == 0 for one in certificate.slices):
        return []
    return sorted(by, key=lambda name: -_slice_variance(by[name]))[:MAX_PANELS]


def draw_slices(certificate: Certificate) -> RowChart:
    """Draw a block for each of the most telling attributes, a row for each value or range of it.

    A bar is the share of these people that the proof left open, a diamond with a line the share that is estimated to be
    treated differently, with its interval.
    """
    names = informative_attributes(certificate)
    shown = [one for one in certificate.slices if one.attribute in names]
    most = [one.estimate.high for one in shown if one.estimate.n >= MIN_SAMPLED] + [one.undecided for one in shown]
    top = min(1.0, 1.05 * max(most, default=1.0)) or 1.0
    axis = drawing.spread(0.0, top, drawing.percentages, about=4)
    blocks = tuple(
        Block(
            rows=tuple(Row(one.values, (_slice_marks(one, top),)) for one in shown if one.attribute == name),
            panels=(Panel(axis),),
            title=name,
            names=250,
            place="left",
            height=SLICE_HEIGHT,
        )
        for name in names
    )
    words = [
        f"{name} {one.values}: {format_percent(one.estimate.unfair)} estimated different, "
        f"{format_percent(one.undecided)} open"
        for name in names
        for one in shown
        if one.attribute == name
    ]
    by = " x ".join(certificate.protected)
    description = f"Where decisions differ by {by}, or are undecided. {'; '.join(words)}."
    return RowChart(description, blocks, tuple((role, part) for part, role in PARTS.items()))


def _slice_names(slices: Sequence[AttributeSlice]) -> list[str]:
    return list(dict.fromkeys(one.attribute for one in slices))


def _slice_variance(slices: Sequence[AttributeSlice]) -> float:
    """How much values differ: variance of the estimated share, less what chance makes, and of the undecided one."""
    known = [one for one in slices if one.estimate.n]
    if not known:
        return 0.0
    mass = sum(one.mass for one in known)
    unfair = sum(one.mass * one.estimate.unfair for one in known) / mass
    left = sum(one.mass * one.undecided for one in known) / mass
    chance = sum(one.mass * unfair * (1 - unfair) / one.estimate.n for one in known) / mass
    differing = sum(one.mass * (one.estimate.unfair - unfair) ** 2 for one in known) / mass
    return max(0.0, differing - chance) + sum(one.mass * (one.undecided - left) ** 2 for one in known) / mass


def _slice_marks(one: AttributeSlice, top: float) -> tuple[Mark, ...]:
    bar = (Bar(0.0, min(top, one.undecided), "open"),) if one.undecided else ()
    if not one.estimate.n or one.estimate.unfair > top:
        return bar
    dot = Dot(one.estimate.unfair, one.estimate.low, min(top, one.estimate.high), role="different", shape="diamond")
    return (*bar, dot)
