"""What a simulated stream of requests found: deadlines missed, and what keeping them cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Policy: TypeAlias = Literal["free", "published", "before", "after"]

Order: TypeAlias = Literal["requests", "decisions"]

POLICIES: tuple[Policy, ...] = ("free", "published", "before", "after")

WORDS: dict[Policy, str] = {
    "free": "prompts are left alone",
    "published": "counters, as published",
    "before": "the prompt asks for it",
    "after": "items are made again",
}
"""How a policy intervenes."""


class Kept(BaseModel):
    """What became of one specification.

    Attributes:
        name: of the specification.
        items: that count for it: made for its condition, and recognised.
        violations: deadlines missed, all values together; without deadlines the values that never appeared.
        missed: the same by value.
        longest_gap: by value, the most items from one appearance to the next, that one included; the sequence's
            beginning counts as an appearance, and so does what may come right after its end.
        deadlines: by value, within how many items it must appear again; None where it only has to appear.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    items: int
    violations: int
    missed: dict[str, int]
    longest_gap: dict[str, int]
    deadlines: dict[str, int] | None


class SimulationResult(Result):
    """A stream of requests under one policy.

    Attributes:
        policy: how it intervened: ``free``, ``published``, ``before`` or ``after``.
        requests: answered, one item each; in_flight: how many were under way at once.
        order: in which the sequence of items is judged: that of the ``requests``, or that of the ``decisions``, when
            first items of requests are there. It is the order that a policy can keep if it decides then.
        violations: deadlines missed, counted in the sequence that was delivered and by the definition alone.
        reported: violations that the policy itself knew of; None for one that keeps no account.
        interventions: requests whose prompt was changed, at least once.
        generator_calls: items that were made, those thrown away included.
        unrecognised: items delivered in which some value was not recognised.
        longest_gap: value -> the longest of all specifications; see ``Kept``.
        specifications: one by one.
        interrupted: whether somebody stopped it; the requests here were answered before.
    """

    kind: Literal["genai-simulation"] = "genai-simulation"
    policy: Policy
    requests: int
    in_flight: int
    order: Order
    violations: int
    reported: int | None
    interventions: int
    generator_calls: int
    unrecognised: int
    longest_gap: dict[str, int]
    specifications: tuple[Kept, ...]
    interrupted: bool = False

    def summary(self) -> str:
        """Deadlines missed, what that cost, and the longest gaps."""
        return "\n".join([_opening(self), *_lines([self])])

    def to_frame(self) -> pd.DataFrame:
        """One row per specification and value: its deadline, how often it was missed, the longest gap."""
        return _frame([self])

    def plot(self) -> alt.TopLevelMixin:
        """Longest gaps beside their deadlines, above violations, interventions and calls."""
        from evenhand.genai.simulation_plot import plot

        return plot([self])


class ComparisonResult(Result):
    """The same stream of requests under several policies.

    Attributes:
        simulations: one for each policy, in the order asked for.
    """

    kind: Literal["genai-comparison"] = "genai-comparison"
    simulations: tuple[SimulationResult, ...]

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it."""
        return any(one.interrupted for one in self.simulations)

    def summary(self) -> str:
        """A line for each policy, then the longest gaps."""
        return "\n".join([_opening(self.simulations[0]), *_lines(self.simulations)])

    def to_frame(self) -> pd.DataFrame:
        """One row per policy, specification and value: its deadline, how often it was missed, the longest gap."""
        return _frame(self.simulations)

    def plot(self) -> alt.TopLevelMixin:
        """Longest gaps beside their deadlines, above violations, interventions and calls, each by policy."""
        from evenhand.genai.simulation_plot import plot

        return plot(self.simulations)


def _opening(one: SimulationResult) -> str:
    stopped = "; INTERRUPTED" if one.interrupted else ""
    return f"{one.requests:,} requests, {one.in_flight} in flight, seed {one.seed}{stopped}"


def _lines(simulations: list[SimulationResult] | tuple[SimulationResult, ...]) -> list[str]:
    """Two small tables: what policies missed and cost, and the longest gap of every value."""
    rows: list[tuple[str, ...]] = [("policy", "violations", "interventions", "calls", "")]
    for one in simulations:
        each = (f"{one.interventions / one.requests:.3f}", f"{one.generator_calls / one.requests:.3f}")
        rows.append((one.policy, f"{one.violations:,}", *each, f"per request; {WORDS[one.policy]}"))
    lines = ["", *_aligned(rows)]
    for place, kept in enumerate(simulations[0].specifications):
        head = ("longest gap", "deadline", *(one.policy for one in simulations))
        rows_of_values: list[tuple[str, ...]] = [head]
        for value in kept.longest_gap:
            gaps = [one.specifications[place].longest_gap[value] for one in simulations]
            deadline = "" if kept.deadlines is None else f"{kept.deadlines[value]:,}"
            rows_of_values.append((value, deadline, *(f"{gap:,}" for gap in gaps)))
        lines += ["", f"{kept.name}:", *_aligned(rows_of_values)]
    return lines


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns: the first to the left, numbers to the right, words at the end as they are."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def cell(i: int, text: str) -> str:
        last_words = i == len(widths) - 1 and not rows[0][i]
        return text if last_words else f"{text:<{widths[i]}}" if i == 0 else f"{text:>{widths[i]}}"

    return ["  ".join(cell(i, text) for i, text in enumerate(row)).rstrip() for row in rows]


def _frame(simulations: list[SimulationResult] | tuple[SimulationResult, ...]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "policy": one.policy,
                "specification": kept.name,
                "value": value,
                "deadline": None if kept.deadlines is None else kept.deadlines[value],
                "missed": kept.missed[value],
                "longest_gap": gap,
            }
            for one in simulations
            for kept in one.specifications
            for value, gap in kept.longest_gap.items()
        ]
    )
