"""Charts of numbers that change in steps over time."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.view.drawing.axis import Axis
from evenhand.view.drawing.theme import DASHES, LIGHT, SERIES, Spec, finish_chart, mark_layer

WIDTH = 880
HEIGHT = 170


@dataclass(frozen=True)
class Series:
    """One line: after ``points[i][0]`` it stands at ``points[i][1]``, until the next point."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StepChart:
    """Lines of steps.

    Attributes:
        description: what it shows, in words, for those who cannot see it.
        series: the lines.
        x, y: the axes.
        x_title, y_title: what they measure.
    """

    description: str
    series: tuple[Series, ...]
    x: Axis
    y: Axis
    x_title: str
    y_title: str

    def path(self, series: Series) -> str:
        """Return a line in percent of the drawing's width and height, from the top left: the points of a polyline."""
        corners: list[tuple[float, float]] = []
        for x, y in ((self.x.at(x), 100 - self.y.at(y)) for x, y in series.points):
            if corners:
                corners.append((x, corners[-1][1]))
            corners.append((x, y))
        return " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)

    @property
    def spec(self) -> Spec:
        """The chart for a notebook."""
        rows = [{"name": one.name, "x": x, "y": y} for one in self.series for x, y in one.points]
        names = [one.name for one in self.series]
        legend = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2.5}

        def line(looks: list[object]) -> Spec:
            scale = {"domain": names, "range": [looks[i % len(looks)] for i in range(len(names))]}
            return {"field": "name", "type": "nominal", "scale": scale, "legend": legend}

        spec = mark_layer(
            rows,
            {"type": "line", "interpolate": "step-after", "strokeWidth": 2.2},
            x=_encoding("x", self.x, self.x_title, grid=False),
            y=_encoding("y", self.y, self.y_title, grid=True),
            color=line([LIGHT[role] for role in SERIES]),
            strokeDash=line([list(dash) for dash in DASHES]),
        )
        return finish_chart(spec | {"width": WIDTH - 76, "height": HEIGHT}, self.description)


def _encoding(field: str, axis: Axis, title: str, *, grid: bool) -> Spec:
    texts = [text for _, text in axis.ticks]
    shown = {"title": title, "grid": grid, "values": [value for value, _ in axis.ticks], "offset": 5}
    shown["labelExpr"] = f"{texts}[round(datum.index * {len(texts) - 1})]"
    scale: Spec = {"domain": [axis.low, axis.high], "nice": False} | ({"type": "log"} if axis.log else {})
    return {"field": field, "type": "quantitative", "scale": scale, "axis": shown}
