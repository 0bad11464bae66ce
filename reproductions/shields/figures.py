"""The paper's figures: drawn again where they are curves, else what the text says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from reproductions.comparison import ComparedFigure, ComparedTable, OwnFigure, Values, Verdict, judge
from reproductions.shields import pieces, published
from reproductions.shields.cells import (
    SHORT,
    Found,
    bounded_cells,
    build_table,
    periodic_cells,
    tested_thresholds,
    utility_losses,
)
from reproductions.shields.pieces import DYNAMIC, DYNAMIC_STRICT, PERIODIC, PROPERTIES, STATIC_BW


def compare_synthesis(found: Found) -> ComparedTable:
    """Compare memory with the text, and draw time and memory as Figure 3 does."""
    figures = []
    for kept in PROPERTIES:
        for one in found.get(f"synthesis-{SHORT[kept].lower()}", {}).get("horizons", []):
            horizon = one["horizon"]
            known = published.SYNTHESIS_HORIZON[kept] == horizon
            seconds, megabytes = published.SYNTHESIS[kept] if known else (None, None)
            row = f"{SHORT[kept]}"
            figures.append(
                ComparedFigure(
                    row=row,
                    measure="processor time",
                    unit="s",
                    at=float(horizon),
                    published_text=f"about {seconds:g}" if seconds else "",
                    ours=OwnFigure(value=one["cpu"], kind="measured"),
                    default=OwnFigure(value=one["own_cpu"], kind="measured"),
                    verdict="not compared",
                    because="seconds of other machines are not compared"
                    if known
                    else "the published curve is a picture",
                )
            )
            memory = one["bytes"] / 1e6
            verdict: Verdict = "not compared"
            if megabytes:
                # "About 30 MB" is a process's memory, of which arrays are most.
                verdict = judge(megabytes, memory, better="lower", within=0.2 * megabytes)
            figures.append(
                ComparedFigure(
                    row=row,
                    measure="memory, MB",
                    at=float(horizon),
                    published=megabytes,
                    ours=OwnFigure(value=memory, kind="measured"),
                    default=OwnFigure(value=one["own_bytes"] / 1e6, kind="measured"),
                    verdict=verdict,
                    because="" if megabytes else "the published curve is a picture",
                )
            )
            same = abs(one["cost"] - one["own_cost"]) <= 1e-4 * (1 + one["cost"])
            figures.append(
                ComparedFigure(
                    row=row,
                    measure="expected cost of the optimal shield",
                    at=float(horizon),
                    ours=OwnFigure(value=one["cost"], kind="proved"),
                    default=OwnFigure(value=one["own_cost"], kind="proved"),
                    verdict="not compared",
                    because="both are optimal" if same else "the published recursion rounds to 4 bytes",
                )
            )
    return build_table("Figure 3", figures).model_copy(update={"horizontal": "decisions"})


def compare_cost(found: Found) -> ComparedTable:
    """Compare the relation of interventions and utility loss with what the text says of Figure 4."""
    figures = []
    for kept in PROPERTIES:
        cells = bounded_cells(found, kept)
        if len(cells) > 2:
            cost, loss = (np.array([np.mean(cell[key]) for cell in cells]) for key in ("interventions", "loss"))
            value = float(np.corrcoef(cost, loss)[0, 1]) if cost.std() and loss.std() else 0.0
            figures.append(
                ComparedFigure(
                    row=SHORT[kept],
                    measure="correlation of cost and utility loss",
                    published_text="strong",
                    ours=OwnFigure(value=value, kind="estimated", basis=f"over {len(cells)} settings"),
                    verdict="agrees" if value >= STRONG else "differs",
                    because="" if value >= STRONG else f"below {STRONG}, which is called strong here",
                )
            )
    return build_table("Figure 4", figures)


STRONG = 0.7
"""Correlation from which a relation is called strong."""


def compare_spread(number: str, found: Found) -> ComparedTable:
    """Compare what the text says of Figures 6 and 7: losses differ more between data sets than between classifiers."""
    key = "environment" if number == "Figure 6" else "classifier"
    figures = []
    for kept in PROPERTIES:
        cells = bounded_cells(found, kept)
        if not cells:
            continue
        means = {which: _means_by(cells, which) for which in ("environment", "classifier")}
        spread = {which: max(own.values()) - min(own.values()) for which, own in means.items()}
        for name, value in means[key].items():
            figures.append(
                ComparedFigure(
                    row=f"{SHORT[kept]}, {name}",
                    measure="mean utility loss",
                    unit="%",
                    ours=OwnFigure(value=value, kind="estimated"),
                    verdict="not compared",
                    because="its figure is lost",
                )
            )
        more = spread["environment"] > spread["classifier"]
        figures.append(
            ComparedFigure(
                row=SHORT[kept],
                measure="from the least to the largest mean",
                unit="%",
                published_text="more than in Figure 7" if key == "environment" else "less than in Figure 6",
                ours=OwnFigure(value=spread[key], kind="estimated"),
                verdict="agrees" if more else "differs",
                because="" if more else f"between classifiers {spread['classifier']:.2f}, data sets "
                f"{spread['environment']:.2f}",
            )
        )  # fmt: skip
    return build_table(number, figures)


SHOWN_PERIODS = 3
"""Every so many periods are shown."""


def compare_periods(found: Found) -> ComparedTable:
    """Draw shares of fair runs by period, and compare the bias at the end with what the text says of Figure 9."""
    figures = []
    for kept in PROPERTIES:
        bare = periodic_cells(found, kept, pieces.STATIC_FAIR)
        for shield in ("none", *PERIODIC):
            cells = bare if shield == "none" else periodic_cells(found, kept, shield)
            if not cells:
                continue
            suffix = "_unshielded" if shield == "none" else ""
            total = sum(len(cell["fair"]) for cell in cells)
            counts = np.sum([cell[f"fair_at{suffix}"] for cell in cells], axis=0)
            row = f"{SHORT[kept]}, {'no shield' if shield == 'none' else shield}"
            for period in range(1, len(counts) + 1, SHOWN_PERIODS):
                count = counts[period - 1]
                figures.append(
                    ComparedFigure(
                        row=row,
                        measure="runs that are fair at the end of the period",
                        unit="%",
                        at=float(period),
                        ours=OwnFigure(value=100 * float(count) / total, kind="estimated", basis=f"in {total:,} runs"),
                        verdict="not compared",
                        because="the published figure shows the bias of all periods, as a picture",
                    )
                )
            figures.append(_end_figure(row, shield, cells, bare))
    return build_table("Figure 9", figures).model_copy(update={"horizontal": "period"})


def _end_figure(row: str, shield: str, cells: Sequence[Values], bare: Sequence[Values]) -> ComparedFigure:
    """Return the mean bias at the end, which the text says is smaller with any shield."""
    without = float(np.mean([value for cell in bare for value in cell["bias_unshielded"]]))
    key = "bias_unshielded" if shield == "none" else "bias"
    value = float(np.mean([one for cell in cells for one in cell[key]]))
    verdict: Verdict = "agrees" if value < without else "differs"
    because = "" if value < without else f"without a shield it is {without:.2f}"
    if shield in ("none", DYNAMIC_STRICT):
        verdict = "not compared"
        because = "its figure is lost" if shield == "none" else "the paper has no strict ends"
    return ComparedFigure(
        row=row,
        measure="mean bias at the end, divided by the threshold",
        published_text="" if verdict == "not compared" else "less than without a shield",
        ours=OwnFigure(value=value, kind="estimated"),
        verdict=verdict,
        because=because,
    )


CONSERVATIVE, CLOSE = 0.5, 0.75
"""Biases divided by the threshold: overly conservative up to the first, slightly below it from the second on."""


def compare_assumed(found: Found) -> ComparedTable:
    """Compare runs that meet their assumption with what the text says of Figure 10."""
    figures = []
    said = {
        pieces.STATIC_FAIR: "no run meets it",
        STATIC_BW: "overly conservative",
        DYNAMIC: "median slightly below 1",
    }
    for kept in PROPERTIES:
        for shield, text in said.items():
            cells = periodic_cells(found, kept, shield)
            if not cells:
                continue
            held = [
                value for cell in cells for value, assumed in zip(cell["bias"], cell["assumed"], strict=True) if assumed
            ]
            median = float(np.median(held)) if held else None
            row = f"{SHORT[kept]}, {shield}"
            if shield == pieces.STATIC_FAIR:
                figures.append(
                    ComparedFigure(
                        row=row,
                        measure="runs that meet the assumption",
                        published=0.0,
                        ours=OwnFigure(value=len(held), kind="observed"),
                        verdict="agrees" if not held else "differs",
                        because="" if not held else "some meet it here",
                    )
                )
                continue
            low, high = (0.0, CONSERVATIVE) if shield == STATIC_BW else (CLOSE, 1.0)
            right = median is not None and low <= median <= high
            figures.append(
                ComparedFigure(
                    row=row,
                    measure="median bias of these runs, divided by the threshold",
                    published_text=text,
                    ours=OwnFigure(value=median, kind="estimated", basis=f"in {len(held)} runs")
                    if median is not None
                    else None,
                    verdict="agrees" if right else "not compared" if median is None else "differs",
                    because="no run meets the assumption"
                    if median is None
                    else ""
                    if right
                    else f"we read the statement as {low:g} to {high:g}",
                )
            )  # fmt: skip
    return build_table("Figure 10", figures)


def compare_thresholds(found: Found) -> ComparedTable:
    """Draw utility loss by threshold, and compare its order with what the text says."""
    figures = []
    for label, select in (
        ("FinHzn, five classifiers", partial(bounded_cells, found)),
        *((f"{shield}, ERM", partial(periodic_cells, found, shield=shield)) for shield in PERIODIC),
    ):
        means: dict[tuple[str, str], float] = {
            (kept, kappa): float(np.mean(own))
            for kept in PROPERTIES
            for kappa in tested_thresholds(found)
            if (own := utility_losses([cell for cell in select(kept) if cell["kappa"] == kappa]))
        }
        for (kept, kappa), value in means.items():
            figures.append(
                ComparedFigure(
                    row=f"{SHORT[kept]}, {label}",
                    measure="mean utility loss",
                    unit="%",
                    at=float(kappa),
                    ours=OwnFigure(value=value, kind="estimated"),
                    verdict="not compared",
                    because="its figure is lost",
                )
            )
        figures += _order_figures(label, means, tested_thresholds(found))
    return build_table("Figure 11", figures).model_copy(update={"horizontal": "threshold"})


def _order_figures(
    label: str, means: Mapping[tuple[str, str], float], kappas: Sequence[str]
) -> Iterator[ComparedFigure]:
    """Yield whether losses fall from the smallest to the largest threshold, and are smaller for demographic parity."""
    if len(kappas) > 1:
        for kept in PROPERTIES:
            if (kept, kappas[0]) in means and (kept, kappas[-1]) in means:
                change = means[kept, kappas[-1]] - means[kept, kappas[0]]
                fell = change <= 0
                yield ComparedFigure(
                    row=f"{SHORT[kept]}, {label}",
                    measure="change of the loss from the smallest to the largest threshold",
                    unit="%",
                    published_text="it falls",
                    ours=OwnFigure(value=change, kind="estimated"),
                    verdict="agrees" if fell else "differs",
                    because="" if fell else "a shield that gives up where its assumption fails costs less there",
                )
    sides = [
        float(np.mean([value for (one, _), value in means.items() if one == kept] or [0.0])) for kept in PROPERTIES
    ]
    if means:
        less = sides[0] < sides[1]
        yield ComparedFigure(
            row=label,
            measure="loss for EqOpp minus loss for DP",
            unit="%",
            published_text="above 0" if label.startswith("FinHzn") else "",
            ours=OwnFigure(value=sides[1] - sides[0], kind="estimated"),
            verdict=("agrees" if less else "differs") if label.startswith("FinHzn") else "not compared",
            because=""
            if label.startswith("FinHzn") and less
            else "the text says it of bounded horizons only"
            if not label.startswith("FinHzn")
            else "DP loses more here",
        )


def _means_by(cells: Sequence[Values], key: str) -> dict[str, float]:
    names = dict.fromkeys(cell[key] for cell in cells)
    return {name: float(np.mean(utility_losses([cell for cell in cells if cell[key] == name]))) for name in names}
