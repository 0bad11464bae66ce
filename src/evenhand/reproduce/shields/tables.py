"""The paper's tables, counted from the runs of a reproduction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.reproduce.shields import published
from evenhand.reproduce.shields.record import (
    FINITE,
    PERIODIC,
    PUBLISHED_COSTS,
    PUBLISHED_EMPTY_GROUP,
    STATIC_FAIR,
    ClassifierRecord,
    ReproductionRecord,
    SettingRuns,
)
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
    published: published.PublishedBias | None


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
    published: published.PublishedRates | None


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


def select_published(cells: Iterable[SettingRuns], *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[SettingRuns]:
    """Return the cells with the paper's costs and, unless another is named, its convention for empty groups."""
    return [cell for cell in cells if cell.costs == PUBLISHED_COSTS and cell.empty_group == empty_group]


def normalise_bias(cells: Iterable[SettingRuns], shield: str) -> list[float]:
    """Return the bias at the end of every run divided by kappa, with the cells' shield or with none."""
    return [
        value / float(cell.kappa) for cell in cells for value in (cell.bias_unshielded if shield == NONE else cell.bias)
    ]


def bias_rows(found: ReproductionRecord, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[BiasRow]:
    """Return two rows per property: without a shield, and with FinHzn."""
    rows = []
    for name in PROPERTIES:
        cells = [
            cell
            for cell in select_published(found.cells, empty_group=empty_group)
            if cell.shield == FINITE and cell.property == name
        ]
        if not cells:
            continue
        for shield in (NONE, FINITE):
            values = np.array(normalise_bias(cells, shield))
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


def rate_rows(found: ReproductionRecord, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[RateRow]:
    """Return one row per property and shield, the first without a shield."""
    rows = []
    for name in PROPERTIES:
        for shield in (NONE, *PERIODIC):
            cells = periodic_cells(found, name, shield, empty_group=empty_group)
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


def periodic_cells(
    found: ReproductionRecord, kept: str, shield: str, *, empty_group: str = PUBLISHED_EMPTY_GROUP
) -> list[SettingRuns]:
    """Return the periodic cells of a shield; without one, those of the first shield, beside which its runs stand."""
    whose = STATIC_FAIR if shield == NONE else shield
    return [
        cell
        for cell in select_published(found.cells, empty_group=empty_group)
        if cell.experiment == "periodic" and cell.shield == whose and cell.property == kept
    ]


def period_shares(
    found: ReproductionRecord, kept: str, shield: str, *, empty_group: str = PUBLISHED_EMPTY_GROUP
) -> list[float]:
    """Return the share of runs that are fair at the end of each period."""
    cells = periodic_cells(found, kept, shield, empty_group=empty_group)
    if not cells:
        return []
    counts = np.sum([cell.fair_at_unshielded if shield == NONE else cell.fair_at for cell in cells], axis=0)
    return [float(count) / sum(cell.runs() for cell in cells) for count in counts]


def finite_losses(found: ReproductionRecord, *, empty_group: str = PUBLISHED_EMPTY_GROUP) -> list[LossRow]:
    """Return utility loss of FinHzn: one row per environment and property, one column per threshold."""
    return _loss_rows(
        found,
        [cell for cell in select_published(found.cells, empty_group=empty_group) if cell.shield == FINITE],
        found.settings.kappas,
        lambda cell: cell.kappa,
    )


def periodic_losses(found: ReproductionRecord, kappa: str) -> list[LossRow]:
    """Return utility loss of periodic shields at one threshold: one column per shield."""
    return _loss_rows(
        found,
        [cell for cell in select_published(found.cells) if cell.experiment == "periodic" and cell.kappa == kappa],
        PERIODIC,
        lambda cell: cell.shield,
    )


def shown_kappa(found: ReproductionRecord) -> str:
    """Return the threshold that tables of a single one show: 0.1 if it was run."""
    return "0.1" if "0.1" in found.settings.kappas else found.settings.kappas[0]


def choice_rows(found: ReproductionRecord) -> list[ChoiceRow]:
    """Return one row per property, costs and convention."""
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


def published_people(trained: ClassifierRecord) -> published.PublishedPeople:
    """Return the environment as the paper counts it."""
    return published.PEOPLE[trained.dataset, trained.attribute]


def published_classifier(trained: ClassifierRecord) -> published.PublishedClassifier | None:
    """Return the same classifier in the paper, where it can be told which that is."""
    return published.CLASSIFIED.get((trained.dataset, trained.attribute, trained.classifier))


def settings_frame(found: ReproductionRecord) -> pd.DataFrame:
    """Return one row per setting, see ``ReproductionRecord.to_frame``."""
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


def _loss_rows(
    found: ReproductionRecord,
    cells: Sequence[SettingRuns],
    columns: Sequence[str],
    column: Callable[[SettingRuns], str],
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


# Words of the tables.


SHORT = {"demographic_parity": "DP", "equal_opportunity": "EqOpp"}
LONG = {"demographic_parity": "demographic parity", "equal_opportunity": "equal opportunity"}
UNSHIELDED = "no shield"


def shield_label(name: str) -> str:
    """Return a shield in a table."""
    return UNSHIELDED if name == NONE else name


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number in a table; nothing where there is none, no sign before a zero.

    >>> format_number(1.234), format_number(None), format_number(-0.001)
    ('1.23', '', '0.00')
    """
    return "" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def format_fair_runs(row: RateRow) -> str:
    """Return how many of the runs in which the assumption held were fair."""
    if row.assumed is None:
        return ""
    return f"{row.fair_when_assumed:,} of {row.assumed:,}" if row.assumed else "never held"
