"""Results of simulated streams of requests: missed deadlines, and the cost of keeping them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from evenhand.core.document import Block, Column, Document, Facts, Figure, Heading, Note, Table, TableRow, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_percent

if TYPE_CHECKING:
    import pandas as pd

PolicyName: TypeAlias = Literal["free", "published", "before", "after"]

SequenceOrder: TypeAlias = Literal["requests", "decisions"]

POLICIES: dict[PolicyName, str] = {
    "free": "prompts are left unchanged",
    "published": "the published counters",
    "before": "values are requested in the prompt",
    "after": "unsuitable items are generated again",
}
"""Description of each policy."""

ORDERS: dict[SequenceOrder, str] = {"requests": "in the order of requests", "decisions": "in the order of first items"}
"""Description of each order."""


class SpecificationOutcome(ResultPart):
    """Outcome for one specification.

    Attributes:
        name: Name of the specification.
        items: Number of recognised items that were generated for its condition.
        violations: Number of missed deadlines. Without deadlines, number of values that never appeared.
        missed: Violations by value.
        longest_gap: Longest gap between two appearances by value, in items. The start of the sequence and the item
            after its end count as appearances.
        deadlines: Deadline by value. None if values only have to appear.
    """

    name: str
    items: int
    violations: int
    missed: dict[str, int]
    longest_gap: dict[str, int]
    deadlines: dict[str, int] | None


class PolicyOutcome(ResultPart):
    """Outcome of one policy.

    Attributes:
        policy: Name of the policy.
        requests: Number of answered requests, with one item each.
        order: Order in which the items are assessed, which is the order of the policy's decisions.
        violations: Number of missed deadlines among the delivered items.
        reported: Number of violations recorded by the policy itself. None if it records none.
        interventions: Number of requests whose prompt was changed.
        generator_calls: Number of generated items, including discarded items.
        unrecognised: Number of delivered items with an unrecognised value.
        longest_gap: Longest gap by value over all specifications.
        specifications: Outcome for each specification.
    """

    policy: PolicyName
    requests: int
    order: SequenceOrder
    violations: int
    reported: int | None
    interventions: int
    generator_calls: int
    unrecognised: int
    longest_gap: dict[str, int]
    specifications: tuple[SpecificationOutcome, ...]


class GenerationSimulationResult(Result):
    """One stream of requests under one or more policies.

    Attributes:
        in_flight: Number of concurrent requests.
        policies: Outcome of each policy.
        interrupted: Whether the simulation was interrupted. It then covers only the requests answered before the
            interrupt.
    """

    chart = "generation.plot_generation_simulation"
    kind: Literal["genai-simulation"] = "genai-simulation"
    in_flight: int
    policies: Annotated[tuple[PolicyOutcome, ...], Field(min_length=1)]
    interrupted: bool = False

    def document(self, name: str = "") -> Document:
        """Describe the missed deadlines, the cost and the longest gaps of the named configuration."""
        requests = self.policies[0].requests
        note = (Note("Interrupted: only the requests answered before the interrupt are included.", "caution"),)
        worst = sorted(self.policies, key=lambda outcome: -outcome.violations)[:5]
        findings = tuple(
            f"{outcome.policy}: {format_count(outcome.violations, 'deadline', 'deadlines')} missed; the prompt of "
            f"{format_percent(outcome.interventions / outcome.requests)} of requests was changed."
            for outcome in worst
        )
        blocks: tuple[Block, ...] = (
            *(note if self.interrupted else ()),
            Text(items=findings, role="finding"),
            Figure(
                "costs of policies",
                "Missed deadlines, requests whose prompt was changed, and generated items per request, by policy.",
                self,
            ),
            self._policy_table(),
            Facts(
                tuple(
                    (outcome.policy, f"{POLICIES[outcome.policy]}; assessed {ORDERS[outcome.order]}")
                    for outcome in self.policies
                )
            ),
            Heading("Longest gaps", anchor="gaps"),
            Figure(
                "longest gaps",
                "Longest gap of each value, in items from one appearance to the next. Grey: within the deadline.",
                self,
            ),
            *map(self._gap_table, range(len(self.policies[0].specifications))),
            Heading("Method", anchor="method", detail=True),
            Text(
                "Requests, items and the order in which they finish are drawn as configured. Every policy receives the "
                "same requests. The gap of a value is the number of recognised items for the condition from one "
                "appearance to the next. The start counts as an appearance, and a deadline after the end is not "
                "missed. Items are assessed in the order of their requests or of the first item of each request, "
                "depending on when the policy decides."
            ),
        )
        return Document(
            f"Simulated generator: {name}" if name else "Simulated generator",
            f"{format_count(requests, 'request', 'requests')}, {self.in_flight} in flight at once. Missed deadlines "
            "are counted among the delivered items.",
            blocks,
            brand="Evenhand, generative AI",
            made=self.provenance,
        )

    def _policy_table(self) -> Table:
        names = ("deadlines missed", "prompts changed", "items made", "not recognised")
        rows = (
            (
                outcome.policy,
                outcome.violations,
                f"{outcome.interventions:,} ({outcome.interventions / outcome.requests:.3f})",
                f"{outcome.generator_calls:,} ({outcome.generator_calls / outcome.requests:.3f})",
                outcome.unrecognised,
            )
            for outcome in self.policies
        )
        return Table(
            "Violations and cost by policy, counted; per request in parentheses",
            (Column("policy"), *(Column(name, numeric=True) for name in names)),
            tuple(map(TableRow, rows)),
        )

    def _gap_table(self, place: int) -> Table:
        several = [outcome.specifications[place] for outcome in self.policies]
        deadlines = several[0].deadlines
        rows = (
            (
                value,
                "any" if deadlines is None else deadlines[value],
                *(specification.longest_gap[value] for specification in several),
            )
            for value in several[0].longest_gap
        )
        names = ("deadline", *(outcome.policy for outcome in self.policies))
        return Table(
            f"{several[0].name}: longest gaps",
            (Column("value"), *(Column(name, numeric=True) for name in names)),
            tuple(map(TableRow, rows)),
        )

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per policy, specification and value."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "policy": outcome.policy,
                    "specification": specification.name,
                    "value": value,
                    "deadline": None if specification.deadlines is None else specification.deadlines[value],
                    "missed": specification.missed[value],
                    "longest_gap": gap,
                }
                for outcome in self.policies
                for specification in outcome.specifications
                for value, gap in specification.longest_gap.items()
            ]
        )
