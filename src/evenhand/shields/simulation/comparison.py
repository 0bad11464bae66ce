"""Comparison of several kinds of shields on the same people."""

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
"""Number of runs per chunk. It is the same for every kind, so all shields decide about the same people."""


class ShieldComparisonResult(Result):
    """Comparison of shields on the same runs.

    Attributes:
        simulations: Simulation of each shield, in the requested order.
    """

    chart = "shields.comparison.draw_comparison"
    kind: Literal["shield-comparison"] = "shield-comparison"
    simulations: tuple[ShieldSimulationResult, ...]

    @property
    def interrupted(self) -> bool:
        """Whether the comparison was interrupted."""
        return any(simulation.interrupted for simulation in self.simulations)

    def document(self) -> Document:
        """Build the document: costs of each shield, and unfair runs over time and at the end."""
        example = self.simulations[0]
        blocks: list[Block] = [
            Note("Interrupted: the last shield shown has fewer runs, and later ones have none.", "caution")
        ] * self.interrupted
        blocks += [
            Text(
                items=tuple(
                    state_outcome(simulation, f"the shield {simulation.name}") for simulation in self.simulations[:5]
                ),
                role="finding",
            ),
            Figure(
                "bias by kind of shield",
                "The bias over the course of a run under each shield: the median, and the band that contains nine of "
                "ten runs; last, the same people without a shield. Black: the largest fair bias.",
                self,
            ),
            _table(self.simulations),
            NextStep("examine one kind in detail"),
        ]
        return Document(
            f"Kinds of shields on {example.source}",
            f"{format_count(example.runs, 'run', 'runs')} of {example.periods * example.horizon:,} decisions on "
            f"{', '.join(example.groups)}, the same people for every shield. {describe_simulated(example)}",
            tuple(blocks),
            brand="Evenhand shield",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per shield: fair runs, interventions, cost, time beyond kappa."""
        import pandas as pd

        return pd.DataFrame(
            {
                "shield": simulation.name,
                "fair": simulation.fair_share,
                "interventions": simulation.interventions_mean,
                "cost": simulation.cost_mean,
                "time beyond kappa": simulation.time_beyond,
                "bias at the end": getattr(simulation.bias, "value", None),
            }
            for simulation in self.simulations
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
        plans: Plans of the shields, which may differ in kind and in the settings of the kind.
        source, config, progress: As for ``simulate_shield``. By default, a run has 1 period if one of the shields
            ends at its horizon, otherwise 10. At most 256 runs are simulated at a time.
        settings: Fields of ``ShieldRunsConfig`` by name, which override those of ``config``.

    Raises:
        OptionError: As for ``simulate_shield``.
    """
    if not plans:
        raise OptionError("there is no shield to simulate", location="plans", hint="pass at least one plan")
    config = ShieldRunsConfig.of(config, settings)
    periods = config.periods or (10 if all(plan.kind in PERIODIC_KINDS for plan in plans) else 1)
    alike = config.model_copy(update={"periods": periods, "max_runs": min(config.max_runs, SAME_CHUNK)})
    simulations: list[ShieldSimulationResult] = []
    for number, plan in enumerate(plans):

        def tell(what: str, share: float, number: int = number, plan: ShieldPlan = plan) -> None:
            if progress is not None:
                progress(f"{plan.kind}: {what}", (number + share) / len(plans))

        simulations.append(simulate_shield(plan, source, alike, progress=tell))
        if simulations[-1].interrupted:
            break
    return ShieldComparisonResult(
        seed=config.seed, seconds=sum(simulation.seconds for simulation in simulations), simulations=tuple(simulations)
    )


def plans_of_kinds(plan: ShieldPlan, kinds: Sequence[str]) -> list[ShieldPlan]:
    """Return copies of a plan with different kinds.

    Raises:
        OptionError: A kind is unknown.
    """
    plans: list[ShieldPlan] = []
    for name in dict.fromkeys(kinds):
        kind = next((candidate for candidate in PLAN_KINDS if candidate == name), None)
        if kind is None:
            raise OptionError(
                f"there is no kind {name!r} of shields", location="kind", hint=f"one of {', '.join(PLAN_KINDS)}"
            )
        plans.append(replace(plan, kind=kind))
    return plans


def _table(simulations: Sequence[ShieldSimulationResult]) -> Table:
    columns = ["fair", "interventions", "time beyond kappa", "bias at the end"]
    rows = [
        TableRow(
            (
                simulation.name,
                show_quantity(simulation.fair, format_percent),
                ReportedNumber(f"{simulation.interventions_mean:.2f}", simulation.interventions_mean, "estimated"),
                ReportedNumber(format_percent(simulation.time_beyond), simulation.time_beyond, "estimated"),
                show_quantity(simulation.bias, lambda value: f"{value:.3f}"),
            )
        )
        for simulation in simulations
    ]
    example = simulations[0]
    decisions = example.periods * example.horizon
    return Table(
        f"Each shield on the same {format_count(example.runs, 'run', 'runs')} of {decisions:,} decisions: runs that "
        "were fair at every check, interventions per run, share of the time with a bias above kappa, bias "
        "at the end",
        (Column("shield"), *(Column(name, numeric=True) for name in columns)),
        tuple(rows),
        usual="estimated",
    )
