"""Chart of a search: the gaps between scores."""

from __future__ import annotations

from evenhand.individual.search.result import SearchResult
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, along, finish_chart, mark_layer


def draw_gaps(result: SearchResult, *, width: int = WIDE) -> Spec:
    """Draw the number of profiles by gap between the two scores."""
    counts = result.gaps
    step = 1 / max(1, len(counts))
    rows = [{"low": k * step, "high": (k + 1) * step, "profiles": n} for k, n in enumerate(counts) if n]
    mode = max(rows, key=lambda row: row["profiles"], default=None)
    summary = "Score gaps of the profiles found"
    if mode is not None:
        summary += (
            f": most ({mode['profiles']:,} of {sum(counts):,}) lie between {mode['low']:.2g} and {mode['high']:.2g}"
        )
    x = along("low", (0, 1), title="gap between the two scores", format=".1f", tickCount=6, grid=False, offset=5)
    bars = mark_layer(
        rows,
        {"type": "bar", "binSpacing": 1, "color": LIGHT["same"]},
        x=x | {"bin": "binned"},
        x2="high",
        y=along("profiles", title="profiles", tickCount=4, labelPadding=8),
    )
    return finish_chart({"layer": [bars], "width": width - 70, "height": 130}, summary + ".")
