"""What a simulated stream of requests found: deadlines missed, and what keeping them cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from evenhand.core.document import Block, Column, Document, Facts, Figure, Heading, Note, Table, TableRow, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_percent

if TYPE_CHECKING:
    import pandas as pd

PolicyName: TypeAlias = Literal["free", "published", "before", "after"]

SequenceOrder: TypeAlias = Literal["requests", "decisions"]

POLICIES: tuple[PolicyName, ...] = ("free", "published", "before", "after")

POLICY_DESCRIPTIONS: dict[PolicyName, str] = {
    "free": "prompts are left alone",
    "published": "counters, as published",
    "before": "the prompt asks for it",
    "after": "items are made again",
}
"""How a policy intervenes."""


class SpecificationOutcome(ResultPart):
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

    name: str
    items: int
    violations: int
    missed: dict[str, int]
    longest_gap: dict[str, int]
    deadlines: dict[str, int] | None


class GenerationSimulationResult(Result):
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
        longest_gap: value -> the longest of all specifications; see ``SpecificationOutcome``.
        specifications: one by one.
        interrupted: whether somebody stopped it; the requests here were answered before.
    """

    chart = "generation.plot_generation_simulation"
    kind: Literal["genai-simulation"] = "genai-simulation"
    policy: PolicyName
    requests: int
    in_flight: int
    order: SequenceOrder
    violations: int
    reported: int | None
    interventions: int
    generator_calls: int
    unrecognised: int
    longest_gap: dict[str, int]
    specifications: tuple[SpecificationOutcome, ...]
    interrupted: bool = False

    def document(self, name: str = "") -> Document:
        """Return deadlines missed, what that cost, and the longest gaps.

        Args:
            name: of the configuration.
        """
        return _build_document(self, [self], name)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per specification and value: its deadline, how often it was missed, the longest gap."""
        return _outcome_frame([self])


class PolicyComparisonResult(Result):
    """The same stream of requests under several policies.

    Attributes:
        simulations: one for each policy, in the order asked for.
    """

    chart = "generation.plot_generation_simulation"
    kind: Literal["genai-comparison"] = "genai-comparison"
    simulations: tuple[GenerationSimulationResult, ...]

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it."""
        return any(one.interrupted for one in self.simulations)

    def document(self, name: str = "") -> Document:
        """Return what each policy missed and cost, and the longest gaps.

        Args:
            name: of the configuration.
        """
        return _build_document(self, self.simulations, name)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per policy, specification and value: deadline, how often it was missed, longest gap."""
        return _outcome_frame(self.simulations)


ORDERS: dict[SequenceOrder, str] = {
    "requests": "by requests",
    "decisions": "by first items",
}
"""In which order a sequence is judged, in words."""


def _build_document(
    result: GenerationSimulationResult | PolicyComparisonResult,
    simulations: Sequence[GenerationSimulationResult],
    name: str,
) -> Document:
    first = simulations[0]
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("Interrupted: the requests here were answered before.", "caution"))
    blocks += [
        Text(
            items=tuple(
                f"{one.policy}: {format_count(one.violations, 'deadline', 'deadlines')} missed; the prompt of "
                f"{format_percent(one.interventions / max(one.requests, 1))} of requests was changed."
                for one in sorted(simulations, key=lambda one: -one.violations)[:5]
            ),
            role="finding",
        ),
        Figure(
            "costs of policies",
            "Deadlines missed, the share of requests whose prompt was changed, and items made per request, by policy.",
            result,
        ),
        _policy_table(simulations),
        Facts(
            tuple((one.policy, f"{POLICY_DESCRIPTIONS[one.policy]}; judged {ORDERS[one.order]}") for one in simulations)
        ),
        Heading("How long values stayed away", anchor="gaps"),
        Figure(
            "longest gaps",
            "The longest gap of each value: the most items from one appearance to the next. Grey: within the deadline.",
            result,
        ),
        *(_gap_table(simulations, place) for place in range(len(first.specifications))),
        Heading("How it was done", anchor="method", detail=True),
        Text(
            "Requests, items and the order in which they end are drawn as the configuration says; every policy gets "
            "the same requests. A value\u2019s gap is the number of items, of those made for the condition and "
            "recognised, from one appearance to the next. The beginning counts as an appearance; a deadline beyond the "
            "end is not missed. A sequence is judged by requests, in the order in which items were asked for, or by "
            "first items, in the order in which first items were there: as the policy decides."
        ),
    ]
    return Document(
        f"Simulated generator: {name}" if name else "Simulated generator",
        f"{format_count(first.requests, 'request', 'requests')}, {first.in_flight} in flight at once. Deadlines that "
        "were missed are counted in the sequence that was delivered.",
        tuple(blocks),
        brand="Evenhand, generative AI",
        made=result.provenance,
    )


def _policy_table(simulations: Sequence[GenerationSimulationResult]) -> Table:
    columns = (
        Column("policy"),
        Column("deadlines missed", numeric=True),
        Column("prompts changed", numeric=True),
        Column("items made", numeric=True),
        Column("not recognised", numeric=True),
    )
    rows = tuple(
        TableRow(
            (
                one.policy,
                one.violations,
                f"{one.interventions:,} ({one.interventions / one.requests:.3f})",
                f"{one.generator_calls:,} ({one.generator_calls / one.requests:.3f})",
                one.unrecognised,
            )
        )
        for one in simulations
    )
    return Table("What policies missed and cost, counted; in brackets per request", columns, rows)


def _gap_table(simulations: Sequence[GenerationSimulationResult], place: int) -> Table:
    kept = simulations[0].specifications[place]
    rows = tuple(
        TableRow(
            (
                value,
                "any" if kept.deadlines is None else kept.deadlines[value],
                *(one.specifications[place].longest_gap[value] for one in simulations),
            )
        )
        for value in kept.longest_gap
    )
    policies = (Column(one.policy, numeric=True) for one in simulations)
    return Table(f"{kept.name}: longest gaps", (Column("value"), Column("deadline", numeric=True), *policies), rows)


def _outcome_frame(simulations: Sequence[GenerationSimulationResult]) -> pd.DataFrame:
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
