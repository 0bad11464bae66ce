"""The paper's tables, counted from the runs of a reproduction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.reproduce.shields import published
from evenhand.reproduce.shields.result import Cell, Reproduction, Trained
from evenhand.reproduce.shields.settings import FINITE, PERIODIC, PUBLISHED_COSTS, PUBLISHED_EMPTY_GROUP, STATIC_FAIR
from evenhand.stats import Quantity, estimated_rate

if TYPE_CHECKING:
    import pandas as pd

NONE = "none"
"""What the tables call it if there is no shield."""

PROPERTIES = ("demographic_parity", "equal_opportunity")


@dataclass(frozen=True)
class BiasRow:
    """The bias at the end, divided by kappa, of all runs with a bounded horizon (their Table 9).

    Attributes:
        property, shield: whose runs.
        runs: how many.
        lower, median, upper, mean, deviation: of the normalised bias.
        above: runs that are not fair, decided exactly.
        unfair: their share.
        published: the paper's row.
    """

    property: str
    shield: str
    runs: int
    lower: float
    median: float
    upper: float
    mean: float
    deviation: float
    above: int
    unfair: Quantity
    published: published.Bias | None


@dataclass(frozen=True)
class RateRow:
    """How often periodic runs meet the assumption, and are fair (their Table 2).

    Attributes:
        property, shield: whose runs.
        runs: how many; assumed, fair: how many of them; fair_when_assumed: both.
        assumption, fairness: the shares; assumption is None without a shield.
        published: the paper's row.
    """

    property: str
    shield: str
    runs: int
    assumed: int | None
    fair: int
    fair_when_assumed: int | None
    assumption: Quantity | None
    fairness: Quantity
    published: published.Rates | None


@dataclass(frozen=True)
class LossRow:
    """Mean utility loss in percent, of one environment under one property (their Table 3).

    Attributes:
        environment, property: whose runs.
        losses: by the table's columns; None where nothing was run.
    """

    environment: str
    property: str
    losses: tuple[float | None, ...]


@dataclass(frozen=True)
class ChoiceRow:
    """What the costs and the convention for empty groups change, over all runs with a bounded horizon.

    Attributes:
        property, costs, empty_group: the choice.
        runs: how many; fair, fair_unshielded: of them, with and without the shield.
        interventions: mean per run; loss: mean utility loss in percent.
    """

    property: str
    costs: str
    empty_group: str
    runs: int
    fair: int
    fair_unshielded: int
    interventions: float
    loss: float


def as_published(cells: Iterable[Cell], *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[Cell]:
    """The cells with the paper's costs and, unless another is named, its convention for empty groups."""
    return [cell for cell in cells if cell.costs == PUBLISHED_COSTS and cell.empty_group == empty_group]


def normalised(cells: Iterable[Cell], shield: str) -> list[float]:
    """The bias at the end of every run divided by kappa, with the cells' shield or with none."""
    return [
        value / float(cell.kappa) for cell in cells for value in (cell.bias_unshielded if shield == NONE else cell.bias)
    ]


def bias_rows(found: Reproduction, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[BiasRow]:
    """Two rows per property: without a shield, and with FinHzn."""
    rows = []
    for name in PROPERTIES:
        cells = [
            cell
            for cell in as_published(found.cells, empty_group=empty_group)
            if cell.shield == FINITE and cell.property == name
        ]
        if not cells:
            continue
        for shield in (NONE, FINITE):
            values = np.array(normalised(cells, shield))
            fair = sum(sum(cell.fair_unshielded if shield == NONE else cell.fair) for cell in cells)
            lower, median, upper = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
            rows.append(
                BiasRow(
                    property=name,
                    shield=shield,
                    runs=len(values),
                    lower=lower,
                    median=median,
                    upper=upper,
                    mean=float(values.mean()),
                    deviation=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                    above=len(values) - fair,
                    unfair=estimated_rate(len(values) - fair, len(values), "runs like these"),
                    published=published.BIAS[name, shield] if empty_group == PUBLISHED_EMPTY_GROUP else None,
                )
            )
    return rows


def rate_rows(found: Reproduction, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[RateRow]:
    """One row per property and shield, the first without a shield."""
    rows = []
    for name in PROPERTIES:
        for shield in (NONE, *PERIODIC):
            cells = periodic(found, name, shield, empty_group=empty_group)
            if not cells:
                continue
            alone = shield == NONE
            fair = [value for cell in cells for value in (cell.fair_unshielded if alone else cell.fair)]
            assumed = None if alone else [value for cell in cells for value in cell.assumed]
            rows.append(
                RateRow(
                    property=name,
                    shield=shield,
                    runs=len(fair),
                    assumed=None if assumed is None else sum(assumed),
                    fair=sum(fair),
                    fair_when_assumed=(None if assumed is None else sum(both for both in map(min, fair, assumed))),
                    assumption=(
                        None if assumed is None else estimated_rate(sum(assumed), len(assumed), "runs like these")
                    ),
                    fairness=estimated_rate(sum(fair), len(fair), "runs like these"),
                    published=(published.RATES.get((name, shield)) if empty_group == PUBLISHED_EMPTY_GROUP else None),
                )
            )
    return rows


def periodic(found: Reproduction, kept: str, shield: str, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[Cell]:
    """The periodic cells of a shield; without one, those of the first shield, beside which its runs stand."""
    whose = STATIC_FAIR if shield == NONE else shield
    return [
        cell
        for cell in as_published(found.cells, empty_group=empty_group)
        if cell.experiment == "periodic" and cell.shield == whose and cell.property == kept
    ]


def period_shares(
    found: Reproduction, kept: str, shield: str, *, empty_group: str = PUBLISHED_EMPTY_GROUP
) -> list[float]:
    """Share of runs that are fair at the end of each period."""
    cells = periodic(found, kept, shield, empty_group=empty_group)
    if not cells:
        return []
    counts = np.sum([cell.fair_at_unshielded if shield == NONE else cell.fair_at for cell in cells], axis=0)
    return [float(count) / sum(cell.runs() for cell in cells) for count in counts]


def finite_losses(found: Reproduction, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[LossRow]:
    """Utility loss of FinHzn: one row per environment and property, one column per threshold."""
    return _losses(
        found,
        [cell for cell in as_published(found.cells, empty_group=empty_group) if cell.shield == FINITE],
        found.settings.kappas,
        lambda cell: cell.kappa,
    )


def periodic_losses(found: Reproduction, kappa: str) -> list[LossRow]:
    """Utility loss of periodic shields at one threshold: one column per shield."""
    return _losses(
        found,
        [cell for cell in as_published(found.cells) if cell.experiment == "periodic" and cell.kappa == kappa],
        PERIODIC,
        lambda cell: cell.shield,
    )


def shown_kappa(found: Reproduction) -> str:
    """The threshold that tables of a single one show: 0.1 if it was run."""
    return "0.1" if "0.1" in found.settings.kappas else found.settings.kappas[0]


def choice_rows(found: Reproduction) -> list[ChoiceRow]:
    """One row per property, costs and convention."""
    rows = []
    for name in PROPERTIES:
        for costs in found.settings.costs:
            for empty_group in found.settings.empty_groups:
                cells = [
                    cell
                    for cell in found.cells
                    if cell.shield == FINITE
                    and (cell.property, cell.costs, cell.empty_group) == (name, costs, empty_group)
                ]
                if cells:
                    rows.append(
                        ChoiceRow(
                            property=name,
                            costs=costs,
                            empty_group=empty_group,
                            runs=sum(cell.runs() for cell in cells),
                            fair=sum(sum(cell.fair) for cell in cells),
                            fair_unshielded=sum(sum(cell.fair_unshielded) for cell in cells),
                            interventions=_mean([value for cell in cells for value in cell.interventions]),
                            loss=_mean([value for cell in cells for value in cell.losses()]),
                        )
                    )
    return rows


def published_people(trained: Trained) -> published.People:
    """The environment as the paper counts it."""
    return published.PEOPLE[trained.dataset, trained.attribute]


def published_classifier(trained: Trained) -> published.Classified | None:
    """The same classifier in the paper, where it can be told which that is."""
    return published.CLASSIFIED.get((trained.dataset, trained.attribute, trained.classifier))


def settings_frame(found: Reproduction) -> pd.DataFrame:
    """One row per setting, see ``Reproduction.to_frame``."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **{name: getattr(cell, name) for name in (
                    "experiment", "dataset", "attribute", "classifier", "property", "kappa", "empty_group", "shield",
                    "costs", "horizon", "periods",
                )},
                "runs": cell.runs(),
                "fair_share": _mean(cell.fair),
                "fair_share_unshielded": _mean(cell.fair_unshielded),
                "assumption_share": _mean(cell.assumed),
                "interventions_mean": _mean(cell.interventions),
                "cost_mean": _mean(cell.cost),
                "utility_loss_mean": _mean(cell.losses()),
                "seconds": cell.seconds,
            }
            for cell in found.cells
        ]
    )  # fmt: skip


def _losses(
    found: Reproduction, cells: Sequence[Cell], columns: Sequence[str], column: Callable[[Cell], str]
) -> list[LossRow]:
    rows = []
    for name in PROPERTIES:
        for environment in found.environments:
            own = [cell for cell in cells if cell.property == name and cell.environment() == environment]
            if own:
                losses = [
                    [value for cell in own if column(cell) == each for value in cell.losses()] for each in columns
                ]
                rows.append(LossRow(environment, name, tuple(_mean(values) if values else None for values in losses)))
    return rows


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
