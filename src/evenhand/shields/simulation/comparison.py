"""Several kinds of shields on the same people: what each costs, and how unfair a run is on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Figure,
    NextStep,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import Result
from evenhand.core.text import format_count, format_percent
from evenhand.core.typing import Progress
from evenhand.errors import OptionError
from evenhand.shields.simulation.result import ShieldSimulationResult, describe_simulated, show_quantity, state_outcome
from evenhand.shields.simulation.simulate import ShieldRunsConfig, simulate_shield
from evenhand.shields.simulation.streams import ArrivalSource
from evenhand.shields.spec.plan import PERIODIC_KINDS, PLAN_KINDS, ShieldPlan

if TYPE_CHECKING:
    import pandas as pd

SAME_CHUNK = 256
"""Runs that are simulated at a time, the same number for every kind: so all of them meet the same people."""


class ShieldComparisonResult(Result):
    """The same runs under several shields.

    Attributes:
        simulations: one for each shield, in the order asked for.
    """

    chart = "shields.comparison.draw_comparison"
    kind: Literal["shield-comparison"] = "shield-comparison"
    simulations: tuple[ShieldSimulationResult, ...]

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it."""
        return any(one.interrupted for one in self.simulations)

    def document(self) -> Document:
        """Return what each shield costs, and how often a run is unfair on its way and at the end."""
        first = self.simulations[0]
        blocks: list[Block] = [
            Note("Interrupted: the last shield here has fewer runs, and those after it have none.", "caution")
        ] * self.interrupted
        blocks += [
            Text(
                items=tuple(state_outcome(one, f"the shield {one.name}") for one in self.simulations[:5]),
                role="finding",
            ),
            Figure(
                "bias by kind of shield",
                "The bias in the course of a run under each shield: the median, and the band that holds nine of ten "
                "runs; last, the same people without a shield. Black: the largest bias that is fair.",
                self,
            ),
            _table(self.simulations),
            NextStep("look closer at one kind of them"),
        ]
        return Document(
            f"Kinds of shields on {first.source}",
            f"{format_count(first.runs, 'run', 'runs')} of {first.periods * first.horizon:,} decisions on "
            f"{', '.join(first.groups)}, the same people for every shield. {describe_simulated(first)}",
            tuple(blocks),
            brand="Evenhand shield",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per shield: fair runs, interventions, cost, time beyond kappa."""
        import pandas as pd

        return pd.DataFrame(
            {
                "shield": one.name,
                "fair": one.fair_share,
                "interventions": one.interventions_mean,
                "cost": one.cost_mean,
                "time beyond kappa": one.time_beyond,
                "bias at the end": getattr(one.bias, "value", None),
            }
            for one in self.simulations
        )


def compare_shields(
    plans: Sequence[ShieldPlan],
    source: ArrivalSource | None = None,
    config: ShieldRunsConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> ShieldComparisonResult:
    """Simulate several shields, each on the same people, drawn in the same order.

    Args:
        plans: of the shields; they may differ in kind and in what belongs to it.
        source, config, progress: as for ``simulate_shield``. Unless set, a run has 1 period where one of the shields
            ends at its horizon, else 10; at most 256 runs are simulated at a time.
        settings: fields of ``ShieldRunsConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: as for ``simulate_shield``.
    """
    if not plans:
        raise OptionError("there is no shield to simulate", location="plans", hint="give one plan or more")
    config = ShieldRunsConfig.of(config, settings)
    periods = config.periods or (10 if all(plan.kind in PERIODIC_KINDS for plan in plans) else 1)
    alike = config.model_copy(update={"periods": periods, "max_runs": min(config.max_runs, SAME_CHUNK)})
    found: list[ShieldSimulationResult] = []
    for number, plan in enumerate(plans):

        def tell(what: str, share: float, number: int = number, plan: ShieldPlan = plan) -> None:
            if progress is not None:
                progress(f"{plan.kind}: {what}", (number + share) / len(plans))

        found.append(simulate_shield(plan, source, alike, progress=tell))
        if found[-1].interrupted:
            break
    return ShieldComparisonResult(seed=config.seed, seconds=sum(one.seconds for one in found), simulations=tuple(found))


def plans_of_kinds(plan: ShieldPlan, kinds: Sequence[str]) -> list[ShieldPlan]:
    """Return a plan as those of other kinds, without what does not belong to them.

    Raises:
        OptionError: there is no such kind.
    """
    found: list[ShieldPlan] = []
    for asked in dict.fromkeys(kinds):
        kind = next((one for one in PLAN_KINDS if one == asked), None)
        if kind is None:
            raise OptionError(
                f"there is no kind {asked!r} of shields", location="kind", hint=f"one of {', '.join(PLAN_KINDS)}"
            )
        found.append(replace(plan, kind=kind))
    return found


def _table(simulations: Sequence[ShieldSimulationResult]) -> Table:
    columns = ["fair", "interventions", "time beyond kappa", "bias at the end"]
    rows = [
        TableRow(
            (
                one.name,
                show_quantity(one.fair, format_percent),
                ReportedNumber(f"{one.interventions_mean:.2f}", one.interventions_mean, "estimated"),
                ReportedNumber(format_percent(one.time_beyond), one.time_beyond, "estimated"),
                show_quantity(one.bias, lambda value: f"{value:.3f}"),
            )
        )
        for one in simulations
    ]
    first = simulations[0]
    decisions = first.periods * first.horizon
    return Table(
        f"Each shield on the same {format_count(first.runs, 'run', 'runs')} of {decisions:,} decisions: runs that were "
        "fair whenever that is checked, interventions in a run, share of the time at which the bias was above kappa"
        ", bias at the end",
        (Column("shield"), *(Column(name, numeric=True) for name in columns)),
        tuple(rows),
        usual="estimated",
    )
