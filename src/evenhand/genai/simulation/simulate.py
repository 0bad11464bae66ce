"""Simulation of a stream of requests under different policies, with many requests in flight."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from evenhand.core.typing import Progress
from evenhand.errors import LimitError, OptionError
from evenhand.genai.assessment.assess import longest_wait, missed_deadlines
from evenhand.genai.enforcement.enforcer import Admission, Enforcer
from evenhand.genai.simulation.result import (
    POLICIES,
    GenerationSimulationResult,
    PolicyName,
    PolicyOutcome,
    SequenceOrder,
    SpecificationOutcome,
)
from evenhand.genai.simulation.stream import (
    OutputLog,
    RequestsInFlight,
    RequestStream,
    SimulatedGenerator,
    SimulatedItem,
)
from evenhand.genai.spec.specification import GenerationConfig, Requirement

MAX_REQUESTS = 100_000_000
"""Maximum number of requests, which are kept in memory and take hours."""

PROGRESS_STEPS = 2000
"""Number of requests between two reports of progress."""


def simulate_requests(
    configuration: GenerationConfig | Mapping[str, Any] | str | Path,
    *,
    requests: int = 10_000,
    in_flight: int | None = None,
    policies: Sequence[str] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> GenerationSimulationResult:
    """Simulate the same stream of requests under several policies, and assess the delivered items.

    Requests, items and the order in which they finish are drawn as the ``simulation`` of the configuration says.

    Args:
        configuration: A ``GenerationConfig``, or the argument of ``GenerationConfig.read``.
        requests: Number of requests.
        in_flight: Number of concurrent requests. If None, that of the configuration.
        policies: Names of policies; all of them if empty. ``free`` leaves prompts unchanged, ``published`` uses the
            published counters, ``before`` and ``after`` are the modes of the ``Enforcer``.
        seed: Random seed.
        progress: Function called with a description and the completed share.

    Raises:
        OptionError: An option is invalid, or the configuration does not describe a simulated generator.
        LimitError: The simulation was interrupted before any request was answered.
    """
    started = time.perf_counter()
    read = configuration if isinstance(configuration, GenerationConfig) else GenerationConfig.read(configuration)
    concurrent = read.simulated.in_flight if in_flight is None else in_flight
    names = _check_options(read, requests, concurrent, policies)
    outcomes: list[PolicyOutcome] = []
    interrupted = False
    for name in names:
        run = _PolicyRun(read, requests, concurrent, name, seed)
        try:
            run.simulate(progress)
        except KeyboardInterrupt:
            interrupted = True
        if run.delivered.answered_count():
            outcomes.append(run.outcome())
        if interrupted:
            break
    if not outcomes:
        raise LimitError("the simulation was interrupted before any request was answered")
    return GenerationSimulationResult(
        seed=seed,
        seconds=time.perf_counter() - started,
        in_flight=concurrent,
        policies=tuple(outcomes),
        interrupted=interrupted,
    )


def _check_options(
    configuration: GenerationConfig, requests: int, in_flight: int, policies: Sequence[str]
) -> tuple[PolicyName, ...]:
    """Check the options, and return each policy once."""
    if not 1 <= requests <= MAX_REQUESTS:
        raise OptionError(f"expected 1 to {MAX_REQUESTS:,} requests, got {requests:,}", location="`requests=`")
    if in_flight < 1:
        raise OptionError(f"expected 1 request in flight or more, got {in_flight}", location="`in_flight=`")
    by_name: dict[str, PolicyName] = {name: name for name in POLICIES}
    for name in policies:
        if name not in by_name:
            raise OptionError(
                f"there is no policy {name!r}", location="`policies=`", hint=f"one of: {', '.join(POLICIES)}"
            )
    for group, values in configuration.values.items():
        if group not in configuration.simulated.generator:
            equal = ", ".join([f"{1 / len(values):.2g}"] * len(values))
            raise OptionError(
                f"the probabilities of the values of {group!r} are missing",
                location="simulation.generator",
                hint=f"write {group}: [{equal}] there, for {', '.join(values)}",
            )
    return tuple(dict.fromkeys(by_name[name] for name in policies or POLICIES))


class _PendingRequest(NamedTuple):
    """State of a request in flight.

    Attributes:
        ticket: Object that the policy returned for the request.
        must: Values requested by the prompt.
        repeated: Whether the request already received an item.
        changed: Whether an earlier prompt was changed.
    """

    ticket: Any
    must: PromptInstruction
    repeated: bool
    changed: bool


class _PolicyRun:
    """Simulation of one policy."""

    def __init__(
        self, configuration: GenerationConfig, requests: int, in_flight: int, policy: PolicyName, seed: int
    ) -> None:
        simulated = configuration.simulated
        self._configuration, self._requests, self._in_flight = configuration, requests, in_flight
        self._name: PolicyName = policy
        self._policy = _build_policy(policy, configuration, in_flight=in_flight, seed=seed)
        self._stream = RequestStream(
            {condition.name: condition.share for condition in configuration.conditions}, seed=seed
        )
        self._generator = SimulatedGenerator(
            {
                group: dict(zip(values, simulated.generator[group], strict=True))
                for group, values in configuration.values.items()
            },
            obeys=simulated.obeys,
            unrecognised=simulated.unrecognised,
            seed=seed,
        )
        self._flight = RequestsInFlight(seed=seed)
        self.delivered = OutputLog(configuration.values, requests)
        self._interventions = self._calls = 0

    def simulate(self, progress: Progress | None) -> None:
        """Answer all requests."""
        delivered, flight, policy = self.delivered, self._flight, self._policy
        pending: dict[int, _PendingRequest] = {}
        answered = 0
        while answered < self._requests:
            while len(flight) < self._in_flight and delivered.request_count < self._requests:
                conditions = self._stream.next()
                number = delivered.ask(conditions)
                pending[number] = _PendingRequest(*policy.admit(conditions), repeated=False, changed=False)
                flight.add(number)
            number = flight.end()
            ticket, must, repeated, changed = pending[number]
            self._interventions += bool(must) and not changed
            if not repeated:
                delivered.decide(number)
            item = self._generator.make(must, again=repeated)
            self._calls += 1
            again = policy.complete(ticket, item)
            if again is not None:
                pending[number] = _PendingRequest(*again, repeated=True, changed=changed or bool(must))
                flight.add(number)
                continue
            del pending[number]
            delivered.record_delivery(number, item)
            answered += 1
            if progress is not None and not answered % PROGRESS_STEPS:
                progress(f"simulating {self._name}", answered / self._requests)

    def outcome(self) -> PolicyOutcome:
        """Assess the delivered items."""
        specifications = tuple(map(self._assess, self._configuration.requirements))
        longest: dict[str, int] = {}
        for specification in specifications:
            for value, gap in specification.longest_gap.items():
                longest[value] = max(gap, longest.get(value, 0))
        return PolicyOutcome(
            policy=self._name,
            requests=self.delivered.answered_count(),
            order=self._policy.order,
            violations=sum(specification.violations for specification in specifications),
            reported=self._policy.reported_violations,
            interventions=self._interventions,
            generator_calls=self._calls,
            unrecognised=self.delivered.count_unrecognised(),
            longest_gap=longest,
            specifications=specifications,
        )

    def _assess(self, requirement: Requirement) -> SpecificationOutcome:
        sequence = self.delivered.sequence(requirement, order=self._policy.order)
        deadlines = None if requirement.repeated is None else requirement.deadline_by_label
        missed, gaps = {}, {}
        for place, label in enumerate(requirement.labels):
            appearances = (np.flatnonzero(sequence == place) + 1).tolist()
            gaps[label] = longest_wait(appearances, len(sequence))
            if deadlines is None:
                missed[label] = int(not appearances)
            else:
                missed[label] = len(missed_deadlines(appearances, len(sequence), deadlines[label]))
        return SpecificationOutcome(
            name=requirement.name,
            items=len(sequence),
            violations=sum(missed.values()),
            missed=missed,
            longest_gap=gaps,
            deadlines=deadlines,
        )


# Policies

PromptInstruction: TypeAlias = Mapping[str, tuple[str, ...]]
"""Requested values by concept group, any of which suffices. Empty if the prompt is unchanged."""

UNCHANGED_PROMPT: PromptInstruction = {}


class Policy(Protocol):
    """Policy that admits requests and receives their items."""

    @property
    def order(self) -> SequenceOrder:
        """Order of the items in which the policy decides."""

    @property
    def reported_violations(self) -> int | None:
        """Number of violations recorded by the policy. None if it records none."""

    def admit(self, conditions: frozenset[str]) -> tuple[Any, PromptInstruction]:
        """Admit a request, and return a ticket for its item and the values that its prompt must request."""

    def complete(self, ticket: Any, item: SimulatedItem) -> tuple[Any, PromptInstruction] | None:
        """Receive an item. If the item is discarded, return as ``admit`` does, otherwise None."""


class NoIntervention:
    """Policy that leaves every prompt unchanged."""

    order: SequenceOrder = "requests"
    reported_violations: int | None = None

    def admit(self, conditions: frozenset[str]) -> tuple[Any, PromptInstruction]:
        return None, UNCHANGED_PROMPT

    def complete(self, ticket: Any, item: SimulatedItem) -> None:
        return None


class PublishedCountdown:
    """Published counters of one specification, as a baseline.

    Implements Algorithm 1 of "Conditional Fairness for Generative AIs" (Cheng et al.). The counter of each value starts
    at its deadline, decreases with every item, and is reset when the value appears. If k values have counters of
    exactly k, one of them is requested at random. Equal deadlines are then kept for one request at a time; other
    deadlines may be missed.

    Args:
        repeated: Deadline of each value.
        seed: Random seed.
    """

    def __init__(self, repeated: Sequence[int], *, seed: int = 0) -> None:
        self._repeated = tuple(repeated)
        self._random = Random(seed)
        self.counters = list(self._repeated)

    def value_to_ask(self) -> int | None:
        """Choose the value that the next item must show. None leaves its prompt unchanged."""
        for k in range(len(self.counters), 0, -1):
            due = [value for value, counter in enumerate(self.counters) if counter == k]
            if len(due) >= k:
                return self._random.choice(due)
        return None

    def record_value(self, value: int | None) -> None:
        """Count an item. If its value is None, all counters decrease, as published."""
        for k, within in enumerate(self._repeated):
            self.counters[k] = within if k == value else self.counters[k] - 1


class PublishedCounters:
    """Published counters for each requirement, which change when an item is delivered.

    If two requirements request different values of one group, the first takes precedence.
    """

    order: SequenceOrder = "decisions"
    reported_violations: int | None = None

    def __init__(self, configuration: GenerationConfig, *, seed: int) -> None:
        self._counters = [
            (requirement, PublishedCountdown(requirement.repeated, seed=seed))
            for requirement in configuration.requirements
            if requirement.repeated is not None
        ]

    def admit(self, conditions: frozenset[str]) -> tuple[frozenset[str], PromptInstruction]:
        must: dict[str, tuple[str, ...]] = {}
        for requirement, countdown in self._counters:
            position = countdown.value_to_ask() if requirement.condition in conditions else None
            if position is None:
                continue
            places = requirement.combinations[position]
            for group, values, place in zip(requirement.groups, requirement.values, places, strict=True):
                must.setdefault(group, (values[place],))
        return conditions, must

    def complete(self, ticket: frozenset[str], item: SimulatedItem) -> None:
        for requirement, countdown in self._counters:
            if requirement.condition in ticket:
                recognised = [value for group in requirement.groups if (value := item[group]) is not None]
                complete = len(recognised) == len(requirement.groups)
                countdown.record_value(requirement.labels.index(" + ".join(recognised)) if complete else None)


class EnforcerPolicy:
    """Enforcer in one of its modes."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self.order: SequenceOrder = "requests" if enforcer.mode == "before" else "decisions"

    @property
    def reported_violations(self) -> int | None:
        return sum(counts["missed"] for counts in self._enforcer.counts.values())

    def admit(self, conditions: frozenset[str]) -> tuple[Admission, PromptInstruction]:
        admission = self._enforcer.admit(conditions)
        return admission, admission.must

    def complete(self, ticket: Admission, item: SimulatedItem) -> tuple[Admission, PromptInstruction] | None:
        again = self._enforcer.complete(ticket, item).admission
        return None if again is None else (again, again.must)


def _build_policy(policy: PolicyName, configuration: GenerationConfig, *, in_flight: int, seed: int) -> Policy:
    if policy == "free":
        return NoIntervention()
    if policy == "published":
        return PublishedCounters(configuration, seed=seed)
    return EnforcerPolicy(Enforcer(configuration, mode=policy, seed=seed, in_flight=in_flight))
