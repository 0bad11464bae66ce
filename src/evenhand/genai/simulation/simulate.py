"""A stream of requests under a policy, many of them in flight, judged by what was delivered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeAlias

from evenhand.core.typing import Progress
from evenhand.errors import LimitError, OptionError
from evenhand.genai.enforcement.enforcer import Admission, Enforcer
from evenhand.genai.simulation.result import (
    POLICIES,
    GenerationSimulationResult,
    PolicyComparisonResult,
    PolicyName,
    SequenceOrder,
    SpecificationOutcome,
)
from evenhand.genai.simulation.stream import (
    OutputLog,
    RequestsInFlight,
    RequestStream,
    SimulatedGenerator,
    SimulatedItem,
    judge_sequence,
)
from evenhand.genai.spec.specification import GenerationConfig, Requirement

MAX_REQUESTS = 100_000_000
"""Requests that are simulated at most; they are kept in memory, and take hours."""

PROGRESS_STEPS = 2000
"""Requests between two reports of progress."""


def simulate_requests(
    configuration: GenerationConfig | Mapping[str, Any] | str | Path,
    *,
    requests: int = 10_000,
    in_flight: int | None = None,
    policy: PolicyName = "before",
    seed: int = 0,
    progress: Progress | None = None,
) -> GenerationSimulationResult:
    """Answer a made-up stream of requests under one policy, and judge the sequence of items that came out.

    Requests, items and the order in which they end are drawn as the configuration's ``simulation`` says. The
    requests are the same for every policy.

    Args:
        configuration: what is asked for, and who is simulated; a mapping or a file is read first.
        requests: how many.
        in_flight: how many are under way at once; by default as the configuration says, or 1.
        policy: ``free`` leaves prompts alone, ``published`` counts as the published algorithm does, ``before`` asks in
            the prompt where it must, ``after`` looks at items first.
        seed: the same seed gives the same result.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: an option makes no sense, or the configuration says nothing about the generator.
    """
    read = _read_configuration(configuration)
    at_once = _check_options(read, requests, in_flight, [policy])
    return _simulate_policy(read, requests, at_once, policy, seed, progress)


def compare_policies(
    configuration: GenerationConfig | Mapping[str, Any] | str | Path,
    *,
    requests: int = 10_000,
    in_flight: int | None = None,
    policies: Sequence[PolicyName] = POLICIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> PolicyComparisonResult:
    """Answer the same requests under several policies; arguments and errors as for ``simulate_requests``."""
    started = time.perf_counter()
    read = _read_configuration(configuration)
    at_once = _check_options(read, requests, in_flight, policies)
    found = []
    for policy in policies:
        found.append(_simulate_policy(read, requests, at_once, policy, seed, progress))
        if found[-1].interrupted:
            break
    return PolicyComparisonResult(seed=seed, seconds=time.perf_counter() - started, simulations=tuple(found))


def parse_policies(names: Sequence[str]) -> tuple[PolicyName, ...]:
    """Parse policies by their names, each once; all of them if there are none.

    Raises:
        OptionError: there is no such policy.
    """
    known = {str(policy): policy for policy in POLICIES}
    for name in names:
        if name not in known:
            raise OptionError(
                f"there is no policy {name!r}", location="`policies=`", hint=f"one of: {', '.join(known)}"
            )
    return tuple(dict.fromkeys(known[name] for name in names)) or POLICIES


def _read_configuration(given: GenerationConfig | Mapping[str, Any] | str | Path) -> GenerationConfig:
    return given if isinstance(given, GenerationConfig) else GenerationConfig.read(given)


def _check_options(
    configuration: GenerationConfig, requests: int, in_flight: int | None, policies: Sequence[str]
) -> int:
    """Return how many requests are in flight; raises where an option or the configuration is of no use."""
    if requests < 1:
        raise OptionError(f"expected 1 request or more, got {requests}", location="`requests=`")
    if requests > MAX_REQUESTS:
        raise OptionError(
            f"{requests:,} requests are too many", location="`requests=`", hint=f"{MAX_REQUESTS:,} at most"
        )
    parse_policies(policies)
    for group, values in configuration.values.items():
        if group not in configuration.simulated.generator:
            equal = ", ".join([f"{1 / len(values):.2g}"] * len(values))
            raise OptionError(
                f"nothing says how likely the values of {group!r} are",
                location="simulation.generator",
                hint=f"write {group}: [{equal}] there, for {', '.join(values)}",
            )
    at_once = configuration.simulated.in_flight if in_flight is None else in_flight
    if at_once < 1:
        raise OptionError(f"expected 1 request in flight or more, got {at_once}", location="`in_flight=`")
    return at_once


def _simulate_policy(
    configuration: GenerationConfig,
    requests: int,
    in_flight: int,
    policy: PolicyName,
    seed: int,
    progress: Progress | None,
) -> GenerationSimulationResult:
    started = time.perf_counter()
    described = configuration.simulated
    stream = RequestStream({one.name: one.share for one in configuration.conditions}, seed=seed)
    generator = SimulatedGenerator(
        {
            group: dict(zip(values, described.generator[group], strict=True))
            for group, values in configuration.values.items()
        },
        obeys=described.obeys,
        unrecognised=described.unrecognised,
        seed=seed,
    )
    deciding_policy = policy_for(policy, configuration, in_flight=in_flight, seed=seed)
    flight = RequestsInFlight(seed=seed)
    delivered = OutputLog(configuration.values, requests)
    under_way: dict[int, tuple[Any, PromptInstruction, bool, bool]] = {}
    interventions = calls = done = 0
    interrupted = False
    try:
        while done < requests:
            while len(flight) < in_flight and delivered.request_count < requests:
                conditions = stream.next()
                number = delivered.ask(conditions)
                ticket, must = deciding_policy.admit(conditions)
                under_way[number] = (ticket, must, False, False)
                flight.add(number)
            number = flight.end()
            ticket, must, tried, changed = under_way[number]
            if must and not changed:
                interventions += 1
            if not tried:
                delivered.decide(number)
            item = generator.make(must, again=tried)
            calls += 1
            again = deciding_policy.complete(ticket, item)
            if again is not None:
                under_way[number] = (*again, True, changed or bool(must))
                flight.add(number)
                continue
            del under_way[number]
            delivered.record_delivery(number, item)
            done += 1
            if progress is not None and not done % PROGRESS_STEPS:
                progress(f"simulating {policy}", done / requests)
    except KeyboardInterrupt:
        interrupted = True
        if not done:
            raise LimitError("the simulation was stopped before any request was answered") from None
    kept = [_judge_requirement(requirement, delivered, deciding_policy) for requirement in configuration.requirements]
    longest: dict[str, int] = {}
    for one in kept:
        for value, gap in one.longest_gap.items():
            longest[value] = max(gap, longest.get(value, 0))
    return GenerationSimulationResult(
        seed=seed,
        seconds=time.perf_counter() - started,
        policy=policy,
        requests=delivered.answered_count(),
        in_flight=in_flight,
        order=deciding_policy.order,
        violations=sum(one.violations for one in kept),
        reported=deciding_policy.reported_violations,
        interventions=interventions,
        generator_calls=calls,
        unrecognised=delivered.count_unrecognised(),
        longest_gap=longest,
        specifications=tuple(kept),
        interrupted=interrupted,
    )


def _judge_requirement(requirement: Requirement, delivered: OutputLog, deciding_policy: Policy) -> SpecificationOutcome:
    """Return one requirement, judged by what was delivered."""
    groups = list(zip(requirement.groups, requirement.values, strict=True))
    shown = delivered.sequence(requirement.condition, groups, order=deciding_policy.order)
    labels, repeated = requirement.labels, requirement.repeated
    found = judge_sequence(shown, len(labels), None if repeated is None else dict(enumerate(repeated, 1)))
    return SpecificationOutcome(
        name=requirement.name,
        items=found.items,
        violations=sum(found.missed),
        missed=dict(zip(labels, found.missed, strict=True)),
        longest_gap=dict(zip(labels, found.longest_gap, strict=True)),
        deadlines=None if repeated is None else dict(zip(labels, repeated, strict=True)),
    )


# The published rule that counts down to deadlines, as a baseline to compare with.
#
# It is Algorithm 1 of "Conditional Fairness for Generative AIs" (Cheng et al.): every value has a counter that starts
# at its deadline, goes down with every item, and starts again when the value appears. When k values have counters of
# exactly k, a random one of them is asked for. That keeps equal deadlines, one item at a time; others can be missed.


class PublishedCountdown:
    """The counters of one specification.

    Args:
        repeated: the deadline of every value.
        seed: of the random choice.
    """

    def __init__(self, repeated: Sequence[int], *, seed: int = 0) -> None:
        self._repeated = tuple(repeated)
        self._random = Random(seed)
        self.counters = list(self._repeated)

    def value_to_ask(self) -> int | None:
        """Return the value that the next item is asked to show; None: its prompt is left alone."""
        for k in range(len(self.counters), 0, -1):
            due = [value for value, counter in enumerate(self.counters) if counter == k]
            if len(due) >= k:
                return self._random.choice(due)
        return None

    def record_value(self, value: int | None) -> None:
        """Count a known item; None: it shows no value, and the counters go down all the same, as published."""
        for k, within in enumerate(self._repeated):
            self.counters[k] = within if k == value else self.counters[k] - 1


# Who decides about prompts in a simulation: every policy behind the same two questions.

PromptInstruction: TypeAlias = Mapping[str, tuple[str, ...]]
"""What a prompt asks for: concept group -> values, any of which will do. Empty: it is left alone."""

FREE_PROMPT: PromptInstruction = {}


class Policy(Protocol):
    """Admits requests and takes their items."""

    @property
    def order(self) -> SequenceOrder:
        """Whose order the sequence of items has that this policy keeps."""

    @property
    def reported_violations(self) -> int | None:
        """Violations that the policy knows of; None if it keeps no account."""

    def admit(self, conditions: frozenset[str]) -> tuple[Any, PromptInstruction]:
        """Admit a request: what is to be handed back with its item, and what its prompt asks for."""

    def complete(self, ticket: Any, item: SimulatedItem) -> tuple[Any, PromptInstruction] | None:
        """Take an item. None: it is delivered; else it is thrown away and made again, as after ``admit``."""


class NoIntervention:
    """Leaves every prompt alone."""

    order: SequenceOrder = "requests"
    reported_violations: int | None = None

    def admit(self, conditions: frozenset[str]) -> tuple[Any, PromptInstruction]:
        return None, FREE_PROMPT

    def complete(self, ticket: Any, item: SimulatedItem) -> None:
        return None


class PublishedCounters:
    """The published counters, one set for each requirement; they move when an item is delivered.

    Where two of them ask for different values of one group, the first is listened to.
    """

    order: SequenceOrder = "decisions"
    reported_violations: int | None = None

    def __init__(self, configuration: GenerationConfig, *, seed: int) -> None:
        self._rules = [
            (requirement, PublishedCountdown(requirement.repeated, seed=seed))
            for requirement in configuration.requirements
            if requirement.repeated is not None
        ]

    def admit(self, conditions: frozenset[str]) -> tuple[frozenset[str], PromptInstruction]:
        must: dict[str, tuple[str, ...]] = {}
        for requirement, rule in self._rules:
            asked = rule.value_to_ask() if requirement.condition in conditions else None
            if asked is None:
                continue
            for group, values, place in zip(
                requirement.groups, requirement.values, requirement.combinations[asked], strict=True
            ):
                must.setdefault(group, (values[place],))
        return conditions, must

    def complete(self, ticket: frozenset[str], item: SimulatedItem) -> None:
        for requirement, rule in self._rules:
            if requirement.condition not in ticket:
                continue
            shown = [item[group] for group in requirement.groups]
            known = [value for value in shown if value is not None]
            rule.record_value(requirement.labels.index(" + ".join(known)) if len(known) == len(shown) else None)


class EnforcerPolicy:
    """The enforcer, in one of its two modes."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self.order: SequenceOrder = "requests" if enforcer.mode == "before" else "decisions"

    @property
    def reported_violations(self) -> int | None:
        return sum(one["missed"] for one in self._enforcer.counts.values())

    def admit(self, conditions: frozenset[str]) -> tuple[Admission, PromptInstruction]:
        admission = self._enforcer.admit(conditions)
        return admission, admission.must

    def complete(self, ticket: Admission, item: SimulatedItem) -> tuple[Admission, PromptInstruction] | None:
        again = self._enforcer.complete(ticket, item).admission
        return None if again is None else (again, again.must)


def policy_for(policy: PolicyName, configuration: GenerationConfig, *, in_flight: int, seed: int) -> Policy:
    """Return the policy of a name, for so many requests in flight.

    Raises:
        OptionError: the configuration cannot be kept, and the policy is one that keeps it.
    """
    if policy == "free":
        return NoIntervention()
    if policy == "published":
        return PublishedCounters(configuration, seed=seed)
    return EnforcerPolicy(Enforcer(configuration, mode=policy, seed=seed, in_flight=in_flight))
