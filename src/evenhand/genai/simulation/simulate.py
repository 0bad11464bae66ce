"""Simulation of a stream of requests under different policies, with many requests in flight."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np

from evenhand.core.typing import Integers, Progress
from evenhand.errors import LimitError, OptionError
from evenhand.genai.assessment.assess import longest_wait, missed_deadlines
from evenhand.genai.enforcement.enforcer import Admission, Enforcer, ItemOutcome
from evenhand.genai.simulation.result import (
    POLICIES,
    GenerationSimulationResult,
    PolicyName,
    PolicyOutcome,
    SequenceOrder,
    SpecificationOutcome,
)
from evenhand.genai.simulation.stream import SimulatedGenerator, SimulatedItem, draw_requests
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import GenerationConfig, Requirement

MAX_REQUESTS = 100_000_000
"""Maximum number of requests. All of them are kept in memory, and simulating them takes hours."""

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

    Requests, items and the order in which they finish are drawn as configured under ``simulation``.

    Args:
        configuration: Configuration, in a form that ``GenerationConfig.read`` accepts.
        requests: Number of requests.
        in_flight: Number of concurrent requests. If None, the value in the configuration is used.
        policies: Names of policies; all of them if empty. ``free`` leaves prompts unchanged, ``published`` uses the
            published counters, ``before`` and ``after`` are the modes of the ``Enforcer``.
        seed: Random seed.
        progress: Function called with a description and the completed fraction.

    Raises:
        OptionError: An option is invalid, or the configuration does not describe a simulated generator.
        LimitError: The simulation was interrupted before any request was answered.
    """
    started = time.perf_counter()
    read = GenerationConfig.read(configuration)
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
        if run.answered.any():
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
        raise OptionError(f"expected at least 1 request in flight, got {in_flight}", location="`in_flight=`")
    for name in policies:
        check_known(name, POLICIES, "policy", "`policies=`")
    for group, values in configuration.values.items():
        if group not in configuration.simulated.generator:
            equal = ", ".join([f"{1 / len(values):.2g}"] * len(values))
            raise OptionError(
                f"the probabilities of the values of {group!r} are missing",
                location="simulation.generator",
                hint=f"write {group}: [{equal}] under generator, for {', '.join(values)}",
            )
    return tuple(dict.fromkeys(cast("Sequence[PolicyName]", policies or tuple(POLICIES))))


class _PolicyRun:
    """Simulation of one policy.

    Attributes:
        answered: Whether each request was answered.
    """

    def __init__(
        self, configuration: GenerationConfig, requests: int, in_flight: int, policy: PolicyName, seed: int
    ) -> None:
        simulated = configuration.simulated
        self._configuration, self._requests, self._in_flight = configuration, requests, in_flight
        self._name: PolicyName = policy
        self._policy: Enforcer | PublishedCounters
        match policy:
            case "before" | "after":
                self._policy = Enforcer(configuration, mode=policy, seed=seed, in_flight=in_flight)
            case _:
                requirements = configuration.requirements if policy == "published" else ()
                self._policy = PublishedCounters(requirements, seed=seed)
        self._order: SequenceOrder = "requests" if policy in ("free", "before") else "decisions"
        self._stream = draw_requests(
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
        self._draw = Random(f"in flight {seed}").random
        self._calls = 0
        self._conditions: list[frozenset[str]] = []
        # Requests in the order of their first items, and those whose prompt was changed.
        self._decided: list[int] = []
        self._changed: set[int] = set()
        # Positions of the delivered values. Position 0 is an unrecognised value.
        self._positions: dict[str, dict[str | None, int]] = {
            group: {None: 0, **{value: i for i, value in enumerate(values, 1)}}
            for group, values in configuration.values.items()
        }
        self._items = {group: np.zeros(requests, np.int32) for group in configuration.values}
        self.answered = np.zeros(requests, bool)

    def simulate(self, progress: Progress | None) -> None:
        """Answer all requests."""
        policy, conditions = self._policy, self._conditions
        # Admission of each pending request, and whether the request already received an item.
        pending: dict[int, tuple[Admission, bool]] = {}
        numbers: list[int] = []
        answered = 0
        while answered < self._requests:
            while len(numbers) < self._in_flight and len(conditions) < self._requests:
                conditions.append(next(self._stream))
                numbers.append(len(conditions) - 1)
                pending[numbers[-1]] = policy.admit(conditions[-1]), False
            # A random pending request is finished.
            place = int(self._draw() * len(numbers))
            number, numbers[place] = numbers[place], numbers[-1]
            numbers.pop()
            admission, repeated = pending.pop(number)
            if admission.must:
                self._changed.add(number)
            if not repeated:
                self._decided.append(number)
            item = self._generator.make(admission.must, again=repeated)
            self._calls += 1
            again = policy.complete(admission, item).admission
            if again is not None:
                pending[number] = again, True
                numbers.append(number)
                continue
            for group, positions in self._positions.items():
                self._items[group][number] = positions[item[group]]
            self.answered[number] = True
            answered += 1
            if progress is not None and not answered % PROGRESS_STEPS:
                progress(f"simulating {self._name}", answered / self._requests)

    def outcome(self) -> PolicyOutcome:
        """Assess the delivered items."""
        answered = np.asarray(self._decided, np.int64)
        answered = answered[self.answered[answered]]
        if self._order == "requests":
            answered = np.sort(answered)
        specifications = tuple(self._assess(requirement, answered) for requirement in self._configuration.requirements)
        longest: dict[str, int] = {}
        for specification in specifications:
            for value, gap in specification.longest_gap.items():
                longest[value] = max(gap, longest.get(value, 0))
        reported = None
        if isinstance(self._policy, Enforcer):
            reported = sum(counts["missed"] for counts in self._policy.counts.values())
        unknown = np.any([positions == 0 for positions in self._items.values()], axis=0)
        return PolicyOutcome(
            policy=self._name,
            requests=len(answered),
            order=self._order,
            violations=sum(specification.violations for specification in specifications),
            reported=reported,
            interventions=len(self._changed),
            generator_calls=self._calls,
            unrecognised=int((unknown & self.answered).sum()),
            longest_gap=longest,
            specifications=specifications,
        )

    def _assess(self, requirement: Requirement, answered: Integers) -> SpecificationOutcome:
        """Assess the recognised items for a requirement, in the order of the answered requests."""
        holds = np.fromiter(
            (requirement.condition in self._conditions[request] for request in answered), bool, len(answered)
        )
        answered = answered[holds]
        sequence, recognised = np.zeros(len(answered), np.int64), np.ones(len(answered), bool)
        for group, values in zip(requirement.groups, requirement.values, strict=True):
            positions = self._items[group][answered]
            recognised &= positions > 0
            sequence = sequence * len(values) + positions - 1
        sequence = sequence[recognised]
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


class PublishedCountdown:
    """Published counters of one specification, as a baseline.

    Implements Algorithm 1 of "Conditional Fairness for Generative AIs" (Cheng et al.). The counter of each value starts
    at its deadline, decreases with every item, and is reset when the value appears. If k values have counters of
    exactly k, one of them is requested at random. Equal deadlines are then kept for one request at a time; other
    deadlines may be missed.
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
    """Published counters for each requirement with deadlines, which change when an item is delivered.

    If two requirements request different values of one group, the first takes precedence. Without requirements, every
    prompt is left unchanged.
    """

    def __init__(self, requirements: Sequence[Requirement], *, seed: int) -> None:
        self._counters = [
            (requirement, PublishedCountdown(requirement.repeated, seed=seed))
            for requirement in requirements
            if requirement.repeated is not None
        ]

    def admit(self, conditions: frozenset[str]) -> Admission:
        """Admit a request, as ``Enforcer.admit`` does."""
        counts: list[str] = []
        must: dict[str, tuple[str, ...]] = {}
        for requirement, countdown in self._counters:
            if requirement.condition not in conditions:
                continue
            counts.append(requirement.name)
            position = countdown.value_to_ask()
            if position is None:
                continue
            for group, value in zip(requirement.groups, requirement.combinations[position], strict=True):
                must.setdefault(group, (value,))
        return Admission(tuple(counts), {}, must, must, 0)

    def complete(self, admission: Admission, item: SimulatedItem) -> ItemOutcome:
        """Count an item, which is always delivered."""
        for requirement, countdown in self._counters:
            if requirement.name in admission.counts:
                countdown.record_value(requirement.position(item))
        return ItemOutcome("ok")
