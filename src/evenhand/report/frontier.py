"""A page about what fairness costs by one method of training: accuracy beside unfairness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.report.html import NARROW, WIDE, Figure, environment

if TYPE_CHECKING:
    from evenhand.mitigate.training import FrontierResult

COLUMNS = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "gap": "largest gap between groups",
    "flips": "decisions that flip",
    "favoured": "given the favourable label",
}
"""Fields of a point, as people read them."""


def render_frontier(result: FrontierResult) -> str:
    """A frontier as text of one HTML file, without script or network. The same frontier gives the same text."""
    from evenhand.mitigate.training.frontier_plot import draw

    figure = Figure(
        wide=charts.svg(draw(result, width=WIDE), name="frontier-wide"),
        narrow=charts.svg(draw(result, width=NARROW), name="frontier-narrow"),
    )
    points = [*result.points, *((result.given,) if result.given is not None else ())]
    return str(
        environment()
        .get_template("frontier.html")
        .render(result=result, figure=figure, points=points, columns=COLUMNS, chart_styles=charts.stylesheet())
    )
