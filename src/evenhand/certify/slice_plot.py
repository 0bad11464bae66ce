"""Certificates attribute by attribute: among whom decisions differ, and whom the proof left open."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand import charts
from evenhand.certify.result import Certificate, Slice
from evenhand.charts import LIGHT, Spec

WIDE = 880
ATTRIBUTES = 4
"""Attributes that are drawn: those whose values differ most."""
ENOUGH = 100
"""People behind an estimate whose whole interval has room in the picture."""
PARTS = {"left open by the proof, about": "open", "estimated different, with interval": "different"}


def telling(certificate: Certificate) -> list[str]:
    """The attributes whose values differ most in what is unfair or undecided, beyond chance; the first differs most."""
    by = {name: [one for one in certificate.slices if one.attribute == name] for name in _names(certificate.slices)}
    if all(one.estimate.unfair == 0 and one.undecided == 0 for one in certificate.slices):
        return []
    return sorted(by, key=lambda name: -_spread(by[name]))[:ATTRIBUTES]


def draw_slices(certificate: Certificate, *, width: int = WIDE) -> Spec:
    """A panel for each of the most telling attributes, a row for each value or range of it.

    A bar is the share of these people that the proof left open, a diamond with a line the share that is estimated to be
    treated differently, with its interval.
    """
    names = telling(certificate)
    shown = [one for one in certificate.slices if one.attribute in names]
    most = [one.estimate.high for one in shown if one.estimate.n >= ENOUGH] + [one.undecided for one in shown]
    top = min(1.0, 1.05 * max(most, default=1.0))
    longest = max((len(one.values) for one in shown), default=0)
    labels = min(250 if width >= WIDE else 118, 7 * longest + 18)
    panels = [
        _panel([one for one in shown if one.attribute == name], name, top, width, labels, first=name == names[0])
        for name in names
    ]
    words = [
        f"{name} {one.values}: {charts.percent(one.estimate.unfair)} estimated different, "
        f"{charts.percent(one.undecided)} open"
        for name in names
        for one in shown
        if one.attribute == name
    ]
    by = " x ".join(certificate.protected)
    return charts.finished(
        {"vconcat": panels, "spacing": 14}, f"Where decisions differ by {by}, or are undecided. {'; '.join(words)}."
    )


def _names(slices: Sequence[Slice]) -> list[str]:
    return list(dict.fromkeys(one.attribute for one in slices))


def _spread(slices: Sequence[Slice]) -> float:
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


def _panel(slices: Sequence[Slice], name: str, top: float, width: int, labels: int, *, first: bool) -> Spec:
    left, differs = PARTS
    rows: list[Spec] = [
        {
            "values": one.values,
            "zero": 0.0,
            "undecided": min(top, one.undecided),
            "unfair": one.estimate.unfair,
            "low": min(top, one.estimate.low),
            "high": min(top, one.estimate.high),
            "left": left,
            "differs": differs,
        }
        for one in slices
    ]
    asked = [row for row, one in zip(rows, slices, strict=True) if one.estimate.n and one.estimate.unfair <= top]
    axis = {"title": None, "labelLimit": labels - 12, "labelPadding": 6, "minExtent": labels, "maxExtent": labels}
    y: Spec = {"field": "values", "type": "nominal", "sort": [row["values"] for row in rows], "axis": axis}
    digits = 0 if top > 0.06 else 1 if top > 0.006 else 2

    def x(field: str) -> Spec:
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"domain": [0, top], "nice": False},
            "axis": {"format": f".{digits}%", "tickCount": 5, "title": None},
        }

    def color(field: str) -> Spec:
        legend = {"symbolType": "square", "symbolStrokeWidth": 0, "columns": 2 if width >= WIDE else 1}
        scale = {"domain": list(PARTS), "range": [LIGHT[role] for role in PARTS.values()]}
        return {"field": field, "type": "nominal", "scale": scale, "legend": legend if first else None}

    point = {"type": "point", "shape": "diamond", "filled": True, "size": 60, "opacity": 1}
    return {
        "layer": [
            charts.marks(rows, {"type": "bar", "height": 13}, y=y, x=x("zero"), x2={"field": "undecided"},
                         color=color("left")),
            charts.marks(asked, {"type": "rule", "strokeWidth": 2}, y=y, x=x("low"), x2={"field": "high"},
                         color=color("differs")),
            charts.marks(asked, point, y=y, x=x("unfair"), color=color("differs")),
        ],
        "width": width - labels - 40,
        "height": {"step": 19},
        "title": {"text": name, "offset": 4},
    }  # fmt: skip
