"""Results of simulations: fair runs before and after the shield, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_percent
from evenhand.stats.quantity import Proved, Quantity, Sampled, Unknown

if TYPE_CHECKING:
    import pandas as pd

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles over runs."""


class BiasQuantiles(ResultPart):
    """Quantiles of the bias over runs, at ``QUANTILE_LEVELS``.

    Attributes:
        decisions: Number of decisions in each run, over all periods.
        shielded, unshielded: Quantiles of the bias after and before the shield.
        checked: Whether the bias must be at most kappa at this time.
        fair, fair_unshielded: Shares of fair runs after and before the shield.
    """

    decisions: int
    shielded: tuple[float, ...]
    unshielded: tuple[float, ...]
    checked: bool
    fair: float
    fair_unshielded: float


class BiasHistogram(ResultPart):
    """Histogram of the bias at the end of runs, divided by kappa unless kappa is 0.

    Attributes:
        edges: Edges of the bins, ascending. The last bin contains everything above its lower edge.
        shielded, unshielded: Number of runs in each bin.
    """

    edges: tuple[float, ...]
    shielded: tuple[int, ...]
    unshielded: tuple[int, ...]


class ShieldSimulationResult(Result):
    """Simulation of a shield, with and without it on the same runs.

    Attributes:
        property, kappa, shield, terminal: Property, bound, kind of the shield, and terminal of a dynamic shield.
        horizon, periods: Number of decisions in a period, and of periods in a run.
        source, order: Description of the arrivals, and their order.
        runs: Number of runs.
        fair_share, fair_share_unshielded: Share of runs that were fair at every check, after and before the shield.
        assumption_share: Share of runs in which the assumption of the guarantee held. None without a guarantee.
        assumption: Description of the assumption.
        fair, fair_unshielded, assumed: These shares with exact intervals.
        fair_when_assumed: Share of fair runs among the runs in which the assumption held.
        interventions_mean, cost_mean: Mean number of overrides and mean cost per run.
        intervention_rate, cost: Share of overrides and cost per run, with intervals.
        accuracy, accuracy_unshielded, utility_loss: Share of decisions that agree with the true label after and before
            the shield, and their difference. Unknown without real labels.
        bias, bias_unshielded: Mean bias at the end of a run.
        over_time: Bias over time, in the first ``watched`` runs.
        normalised: Distribution of the bias at the end.
        interrupted: Whether the simulation was interrupted after the runs in this result.
    """

    chart = "shields.simulation.plot_shield_simulation"
    kind: Literal["shield-simulation"] = "shield-simulation"
    property: str
    kappa: str
    shield: str
    terminal: str | None = None
    horizon: int
    periods: int
    groups: tuple[str, ...]
    source: str
    order: str
    runs: int
    fair_share: float
    fair_share_unshielded: float
    assumption_share: float | None
    assumption: str
    fair: Quantity
    fair_unshielded: Quantity
    assumed: Quantity
    fair_when_assumed: Quantity
    interventions_mean: float
    intervention_rate: Quantity
    cost_mean: float
    cost: Quantity
    accuracy: Quantity
    accuracy_unshielded: Quantity
    utility_loss: Quantity
    bias: Quantity
    bias_unshielded: Quantity
    watched: int
    over_time: tuple[BiasQuantiles, ...]
    normalised: BiasHistogram
    interrupted: bool = False

    @cached_property
    def name(self) -> str:
        """Return the name of the shield in comparisons."""
        return self.shield if self.terminal in (None, "strict") else f"{self.shield} ({self.terminal})"

    @cached_property
    def time_beyond(self) -> float:
        """Compute the share of the recorded times at which the bias is above kappa, over all runs."""
        return 1 - sum(moment.fair for moment in self.over_time) / len(self.over_time)

    def when(self) -> str:
        """Describe the times of the checks."""
        number = self.periods
        at_end = sum(moment.checked for moment in self.over_time) == number
        ends = "at the end" if number == 1 else f"at the ends of all {number} periods"
        return ends if at_end else f"{ends} and at the checked times in between"

    def document(self) -> Document:
        """Build the document: fair runs before and after the shield, and costs."""
        return _build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Build a table with a row per recorded time: decisions, check, shares of fair runs, quantiles of the bias."""
        import pandas as pd

        rows = []
        for moment in self.over_time:
            row = moment.model_dump(exclude={"shielded", "unshielded"})
            for name in ("shielded", "unshielded"):
                quantiles = getattr(moment, name)
                row |= {f"{name} {level:.0%}": value for level, value in zip(QUANTILE_LEVELS, quantiles, strict=True)}
            rows.append(row)
        return pd.DataFrame(rows)


PROPERTIES = {
    "demographic_parity": "the acceptance rates of any two groups differ by at most {0:g}",
    "disparate_impact": "1 minus the ratio of the smaller acceptance rate to the larger is at most {0:g}",
    "equal_opportunity": "the acceptance rates among those whose true label is favourable differ by at most {0:g}",
}
"""Description of each property."""

ARRIVALS = {
    "random": "independent draws",
    "one-group-first": "one group after the other, the first one drawn for every run",
    "alternating": "the groups in turn",
    "worst": "one group, drawn for every run, always recommended, the others never",
    "greedy": "an adversary that sees the counters and mostly sends people who widen the gap",
}
"""Description of each order of arrivals."""


def _build_document(result: ShieldSimulationResult) -> Document:
    terminal = f", {result.terminal}" if result.terminal else ""
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("Interrupted: only complete runs are included.", "caution"))
    blocks.append(Text(state_outcome(result), role="finding"))
    blocks += [*_answers(result), NextStep(_next_step(result))]
    blocks += [
        Heading("Bias over time", anchor="over-time", detail=True),
        Figure(
            "bias over time",
            f"The bias over the course of a run, over {result.watched:,} runs: after the shield (blue, filled) and "
            "before it (orange, dashed). Thick: the median. Nine of ten runs are between the thin lines. Grey: fair. "
            "Dots: checks.",
            result,
        ),
        _check_table(result),
        Heading("Bias at the end", anchor="ends", detail=True),
        Figure(
            "bias at the end",
            f"The bias at the end of a run, divided by the largest fair bias, over all {result.runs:,} runs. Runs "
            "to the right of the line end unfair. The last bin contains everything above it.",
            result,
        ),
        Heading("Method", anchor="method", detail=True),
        _method_facts(result),
    ]
    return Document(
        f"Simulation of a shield ({result.shield}{terminal}) on {result.source}",
        f"{format_count(result.runs, 'run', 'runs')} of {result.periods * result.horizon:,} decisions on "
        f"{', '.join(result.groups)}: {ARRIVALS[result.order]}. {describe_simulated(result)} Every run is simulated "
        "once; before the shield it is the same run with every recommendation followed.",
        tuple(blocks),
        brand="Evenhand shield",
        made=result.provenance,
    )


def state_outcome(result: ShieldSimulationResult, shield: str = "the shield") -> str:
    """Describe the runs that keep the bound with and without the shield, and the interventions."""
    return (
        f"With {shield}, {format_share(result.fair_share)} of {format_count(result.runs, 'run', 'runs')} keep the "
        f"bound at every check, without it {format_share(result.fair_share_unshielded)}; it overrides "
        f"{result.interventions_mean:.2f} of {result.periods * result.horizon:,} recommendations per run (estimated)."
    )


def describe_simulated(result: ShieldSimulationResult) -> str:
    """Describe the property and the times of its checks."""
    return f"Kept {result.when()}: {PROPERTIES[result.property].format(float(Fraction(result.kappa)))}."


def _answers(result: ShieldSimulationResult) -> Iterator[Metric]:
    """Yield the main figures with their basis."""
    decisions = result.periods * result.horizon
    yield _share_answer("fair after the shield", result.fair)
    yield _share_answer("fair before the shield", result.fair_unshielded)
    yield _share_answer("assumption held", result.assumed, result.assumption)
    if not isinstance(result.fair_when_assumed, Unknown) and result.assumption_share != 1:
        yield _share_answer("fair where it held", result.fair_when_assumed)
    yield _share_answer(
        "interventions",
        result.intervention_rate,
        f"share of decisions: {result.interventions_mean:.2f} of {decisions:,} per run",
    )
    yield _number_answer("cost of interventions", result.cost, "mean of a run")
    yield _number_answer("bias after the shield", result.bias, "mean at the end of a run")
    yield _number_answer("bias before the shield", result.bias_unshielded, "mean at the end of a run")
    if not isinstance(result.utility_loss, Unknown):
        shielded, unshielded = (
            "unknown" if isinstance(accuracy, Unknown) else format_share(accuracy.value)
            for accuracy in (result.accuracy, result.accuracy_unshielded)
        )
        yield _share_answer(
            "accuracy lost",
            result.utility_loss,
            f"share of decisions: {shielded} correct after the shield, {unshielded} before",
        )


def _share_answer(name: str, quantity: Quantity, note: str = "") -> Metric:
    if isinstance(quantity, Proved):
        number = ReportedNumber(format_share(quantity.value), quantity.value, "proved", basis=f"of all runs: {note}")
        return Metric(name, number)
    return Metric(name, show_quantity(quantity, format_share), (note,) if note else ())


def _number_answer(name: str, quantity: Quantity, note: str) -> Metric:
    return Metric(name, show_quantity(quantity, lambda value: f"{value:.3f}"), (note,))


def show_quantity(quantity: Quantity, write: Callable[[float], str]) -> ReportedNumber:
    """Convert a quantity to a document number with its interval and kind."""
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    text = write(quantity.value)
    if isinstance(quantity, Proved):
        return ReportedNumber(text, quantity.value, "proved", basis=quantity.how)
    assert isinstance(quantity, Sampled)  # only rankings have descriptive numbers
    ends = f"{write(quantity.low)} to {write(quantity.high)}"
    basis = f"from {format_count(quantity.n, 'run', 'runs')}"
    return ReportedNumber(
        text, quantity.value, quantity.kind, quantity.low, quantity.high, ends, quantity.confidence, basis
    )


def format_share(share: float) -> str:
    """Format a share in percent, with a sign if it is negative."""
    return f"-{format_percent(-share)}" if share < 0 else format_percent(share)


def _next_step(result: ShieldSimulationResult) -> str:
    if result.fair_share == 1:
        if result.order == "random":
            return "try adversarial orders: --arrivals greedy, --arrivals one-group-first"
        return "see the cost for real arrivals: --arrivals random, on your own model and data"
    if result.assumption_share is not None and result.assumption_share < 1:
        return "longer periods, or kind dynamic with terminal strict, which assumes less"
    return "kind finite, static-bw or dynamic, which guarantee it"


def _check_table(result: ShieldSimulationResult) -> Table:
    def median(quantiles: tuple[float, ...]) -> ReportedNumber:
        low, middle, high = quantiles[0], quantiles[len(quantiles) // 2], quantiles[-1]
        return ReportedNumber(f"{middle:.3f}", middle, "estimated", low, high, f"{low:.3f} to {high:.3f}")

    def share(value: float) -> ReportedNumber:
        return ReportedNumber(f"{100 * value:.1f} %", value, "estimated")

    names = ("decisions", "bias after the shield", "fair after", "bias before the shield", "fair before")
    return Table(
        f"The bias when it is checked, estimated from {result.watched:,} runs: median, below it the range of nine of "
        "ten runs; and the share of all runs that are fair then",
        tuple(Column(name, numeric=True) for name in names),
        tuple(
            TableRow(
                (
                    moment.decisions,
                    median(moment.shielded),
                    share(moment.fair),
                    median(moment.unshielded),
                    share(moment.fair_unshielded),
                )
            )
            for moment in result.over_time
            if moment.checked
        ),
        usual="estimated",
    )


def _method_facts(result: ShieldSimulationResult) -> Facts:
    periods = f", {result.periods} periods" if result.periods > 1 else ""
    return Facts(
        (
            ("property", f"{result.property.replace('_', ' ')}, kappa {result.kappa}"),
            ("shield", f"{result.shield}{f', {result.terminal}' if result.terminal else ''}"),
            ("rests on", result.assumption),
            ("horizon", f"{format_count(result.horizon, 'decision', 'decisions')}{periods}"),
            ("arrivals", f"{result.source}: {ARRIVALS[result.order]}"),
            (
                "intervals",
                "for runs like these: exact (Clopper and Pearson) for shares of runs, Student\u2019s t for means",
            ),
        )
    )
