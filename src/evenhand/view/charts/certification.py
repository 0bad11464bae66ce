"""Charts of certificates: proved shares, and shares by attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenhand.certification.certificate.result import AttributeSlice, Certificate
from evenhand.checker.result import CertificateCheck
from evenhand.core.text import SIMULATED, format_percent
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.rows import Bar, Block, Dot, Mark, Panel, Row, RowChart, Span, Tick
from evenhand.view.drawing.theme import Spec, stack_charts

SHARE_PARTS = (
    ("certified", "certified fair: the same decision", "same"),
    ("undecided", "undecided", "open"),
    ("falsified", "certified unfair: different decisions", "different"),
)
"""Parts of a bar from left to right: field, name, role of the colour."""

HEIGHT = 28
"""Height of a row in pixels."""


def plot_certificate(result: Certificate) -> Spec:
    """Plot the proved and estimated shares."""
    parts = [draw_shares([result])]
    if informative_attributes(result):
        parts.append(draw_slices(result))
    return stack_charts(parts)


def draw_shares(certificates: Sequence[Certificate]) -> RowChart:
    """Draw one bar per certificate. If all bars are mostly certified, their right ends are repeated below, enlarged.

    The vertical marker is where the estimate, ``estimate.unfair``, puts the boundary between equal and different
    decisions, with its interval. People without a counterpart are left out at the right end.
    """
    blocks = [_share_bars(certificates, 0.0, f"Share of {SIMULATED}")]
    widest = max(max(1 - certificate.certified, certificate.estimate.high) for certificate in certificates)
    if 0 < widest <= 0.5:
        start = 1 - _round_up(1.08 * widest)
        blocks.append(
            _share_bars(certificates, start, f"The last {100 * (1 - start):.3g} % of the same bars, enlarged")
        )
    parts = [
        f"{_certificate_name(certificate)}: certified fair {format_percent(certificate.certified)}, undecided "
        f"{format_percent(certificate.undecided)}, "
        f"certified unfair {format_percent(certificate.falsified)}, estimated different "
        f"{format_percent(certificate.estimate.unfair)}"
        for certificate in certificates
    ]
    return RowChart(
        f"Proved shares of {SIMULATED}. {'; '.join(parts)}.",
        tuple(blocks),
        tuple((role, part) for _, part, role in SHARE_PARTS),
    )


def draw_check(result: CertificateCheck) -> RowChart:
    """Draw one bar of the three shares that a checked certificate holds; none if it was rejected."""
    shares = (("certified", result.certified), ("undecided", result.undecided), ("falsified", result.falsified))
    roles = {name: role for name, _, role in SHARE_PARTS}
    marks, at = [], 0.0
    for name, share in shares:
        if share:
            marks.append(Bar(at, at + share, roles[name]))
            at += share
    axis = spread(0.0, 1.0, percentages, about=4, whole=True)
    row = Row(" x ".join(result.protected) or "rejected", (tuple(marks),))
    summary = ", ".join(f"{name} {format_percent(share)}" for name, share in shares if share is not None)
    return RowChart(
        f"Certificate {result.verdict}: {summary or 'no shares'}.",
        (Block(rows=(row,), panels=(Panel(axis),), names=160, height=HEIGHT),),
        tuple((role, part) for _, part, role in SHARE_PARTS),
    )


def _certificate_name(certificate: Certificate) -> str:
    return " x ".join(certificate.protected)


def _round_up(share: float) -> float:
    """Return the next of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(share))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= share * (1 - 1e-9))


def _share_bars(certificates: Sequence[Certificate], start: float, title: str) -> Block:
    axis = spread(start, 1.0, percentages)
    rows = tuple(Row(_certificate_name(certificate), (_marks(certificate, start),)) for certificate in certificates)
    return Block(rows=rows, panels=(Panel(axis),), title=title, place="above", height=HEIGHT)


def _marks(certificate: Certificate, start: float) -> tuple[Mark, ...]:
    """Return the segments of a bar to the right of ``start``, overlaid with the estimate and its interval."""
    marks: list[Mark] = []
    left = 0.0
    for field, _, role in SHARE_PARTS:
        right = left + float(getattr(certificate, field))
        if right > max(start, left):
            marks.append(Bar(max(start, left), right, role))
        left = right
    estimate, end = certificate.estimate, 1 - certificate.no_counterpart
    marks.append(Span(max(start, end - estimate.high), max(start, end - estimate.low), "ink"))
    if end - estimate.unfair >= start:
        marks.append(Tick(end - estimate.unfair, heavy=True))
    return tuple(marks)


# Certificates by attribute: different and undecided shares of each value.

MAX_PANELS = 4
"""Maximum number of attributes drawn: those whose values differ most."""
MIN_SAMPLED = 100
"""Minimum sample size of an estimate whose interval the axis is extended to."""
SLICE_HEIGHT = 20
"""Height of a row in pixels."""
PARTS = {"left open by the proof, about": "open", "estimated different, with interval": "different"}


def informative_attributes(certificate: Certificate) -> list[str]:
    """Select the attributes whose values differ most in the different or undecided shares, most different first."""
    names = dict.fromkeys(part.attribute for part in certificate.slices)
    by = {name: [part for part in certificate.slices if part.attribute == name] for name in names}
    if all(part.estimate.unfair == 0 and part.undecided == 0 for part in certificate.slices):
        return []
    return sorted(by, key=lambda name: -_slice_variance(by[name]))[:MAX_PANELS]


def draw_slices(certificate: Certificate) -> RowChart:
    """Draw a block for each of the most informative attributes, with a row for each value or range.

    A bar is the share of these people that the proof left open, a diamond with a line the estimated share that is
    treated differently, with its interval.
    """
    names = informative_attributes(certificate)
    slices = [part for part in certificate.slices if part.attribute in names]
    upper_ends = [part.estimate.high for part in slices if part.estimate.n >= MIN_SAMPLED] + [
        part.undecided for part in slices
    ]
    top = min(1.0, 1.05 * max(upper_ends, default=1.0)) or 1.0
    axis = spread(0.0, top, percentages, about=4)
    blocks = tuple(
        Block(
            rows=tuple(Row(part.values, (_slice_marks(part, top),)) for part in slices if part.attribute == name),
            panels=(Panel(axis),),
            title=name,
            names=250,
            place="left",
            height=SLICE_HEIGHT,
        )
        for name in names
    )
    words = [
        f"{name} {part.values}: {format_percent(part.estimate.unfair)} estimated different, "
        f"{format_percent(part.undecided)} open"
        for name in names
        for part in slices
        if part.attribute == name
    ]
    by = " x ".join(certificate.protected)
    description = f"Where decisions differ by {by}, or are undecided. {'; '.join(words)}."
    return RowChart(description, blocks, tuple((role, part) for part, role in PARTS.items()))


def _slice_variance(slices: Sequence[AttributeSlice]) -> float:
    """Variance of the estimated share between values, minus the sampling variance, plus that of the undecided share."""
    sampled = [part for part in slices if part.estimate.n]
    if not sampled:
        return 0.0
    mass = sum(part.mass for part in sampled)
    unfair = sum(part.mass * part.estimate.unfair for part in sampled) / mass
    left = sum(part.mass * part.undecided for part in sampled) / mass
    chance = sum(part.mass * unfair * (1 - unfair) / part.estimate.n for part in sampled) / mass
    differing = sum(part.mass * (part.estimate.unfair - unfair) ** 2 for part in sampled) / mass
    return max(0.0, differing - chance) + sum(part.mass * (part.undecided - left) ** 2 for part in sampled) / mass


def _slice_marks(part: AttributeSlice, top: float) -> tuple[Mark, ...]:
    bar = (Bar(0.0, min(top, part.undecided), "open"),) if part.undecided else ()
    if not part.estimate.n or part.estimate.unfair > top:
        return bar
    dot = Dot(part.estimate.unfair, part.estimate.low, min(top, part.estimate.high), role="different", shape="diamond")
    return (*bar, dot)
