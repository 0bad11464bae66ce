"""Refutations as pictures: what is proved at every accuracy floor, and where rule and original model stand."""

from __future__ import annotations

from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.theme import LIGHT, Spec, finish_chart, mark_layer

WIDTH, HEIGHT, SCALE = 690, 320, 66
"""Pixels across and up, and for the numbers and the title of the upright axis."""


def draw_refutation(result: RefutationResult, *, width: int = WIDTH) -> Spec:
    """Draw the least gap that is proved of any decisions against the accuracy floor, with the rule found.

    Steps bound all decisions by the features: below them there is nothing. Between two floors the bound of the lower
    one holds, and no line between both: the least gap is convex in the floor. The bar stands at the family's floor,
    from its proved bound to the gap of the rule found. A square: the original model.
    """
    line = [{"accuracy": one.accuracy, "gap": one.bound} for one in result.curve]
    own: list[Spec] = []
    if result.bound is not None:
        high = result.bound if result.witness is None else result.witness.gap
        own = [{"accuracy": result.accuracy, "gap": high, "low": result.bound, "name": "rule found"}]
    given: list[Spec] = []
    if result.given is not None:
        given = [{"accuracy": result.given.accuracy, "gap": result.given.gap, "name": "original model"}]
    points = [*line, *own, *given]
    accuracies = [row["accuracy"] for row in points]
    low, high = min(accuracies, default=0.0), max(accuracies, default=1.0)
    room = 0.03 * (high - low) or 0.01
    x = spread(low - room, min(1.0, high + room), percentages, about=max(3, width // 110))
    y = spread(0.0, max((row["gap"] for row in points), default=0.0) or 0.01, percentages, whole=True)
    across, up = (
        {
            "field": field,
            "type": "quantitative",
            "scale": {"domain": [axis.low, axis.high], "nice": False},
            "axis": {"title": title, "values": [value for value, _ in axis.ticks], "format": "~%", "offset": 5},
        }
        for field, axis, title in (("accuracy", x, "accuracy floor"), ("gap", y, "gap of selection rates"))
    )
    steps: Spec = {"interpolate": "step-after"}
    # Names stand on the side where there is room for them.
    named, middle = [*(own if result.witness is not None else []), *given], (x.low + x.high) / 2
    layers = [
        mark_layer(
            line, steps | {"type": "area", "color": LIGHT["open"], "opacity": 0.35}, x=across, y=up, y2={"datum": 0}
        ),
        mark_layer(line, steps | {"type": "line", "color": LIGHT["same"], "strokeWidth": 2}, x=across, y=up),
        mark_layer(
            own,
            {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 3},
            x=across,
            y={**up, "field": "low"},
            y2={"field": "gap"},
        ),
        mark_layer(
            own if result.witness is not None else [],
            {"type": "point", "filled": True, "size": 80, "opacity": 1, "color": LIGHT["ink"]},
            x=across,
            y=up,
        ),
        mark_layer(
            given,
            {"type": "point", "shape": "square", "filled": True, "size": 80, "opacity": 1, "color": LIGHT["different"]},
            x=across,
            y=up,
        ),
        *(
            mark_layer(
                [row for row in named if (row["accuracy"] > middle) == (side < 0)],
                {"type": "text", "align": align, "dx": 9 * side, "dy": -8, "color": LIGHT["ink"]},
                x=across,
                y=up,
                text={"field": "name", "type": "nominal"},
            )
            for align, side in (("left", 1), ("right", -1))
        ),
    ]
    said = "; ".join(
        f"accuracy {row['accuracy']:.1%}, gap {row['gap']:.1%}".replace("%", " %")
        for row in line[:: max(1, len(line) // 6)]
    )
    about = f"No decisions by the features have a smaller gap: {said}."
    for row in (*own, *given):
        about += f" {row['name'].capitalize()}: accuracy {row['accuracy']:.1%}, gap {row['gap']:.1%}."
    return finish_chart({"layer": layers, "width": width - SCALE, "height": HEIGHT}, about.replace("%", " %"))
