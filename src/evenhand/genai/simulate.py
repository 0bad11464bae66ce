"""A stream of requests under a policy, many of them in flight, judged by what was delivered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import LimitError, OptionError
from evenhand.genai.delivered import Delivered
from evenhand.genai.desks import Desk, Must, desk_for
from evenhand.genai.judgement import judge
from evenhand.genai.simulation import POLICIES, ComparisonResult, Kept, Policy, SimulationResult
from evenhand.genai.specification import Configuration, Requirement
from evenhand.genai.stream import Generator, InFlight, Requests

Progress = Callable[[str, float], None]

MOST = 100_000_000
"""Requests that are simulated at most; they are kept in memory, and take hours."""

TOLD = 2000
"""Requests between two reports of progress."""


def simulate(
    configuration: Configuration | Mapping[str, Any] | str | Path,
    *,
    requests: int = 10_000,
    in_flight: int | None = None,
    policy: Policy = "before",
    seed: int = 0,
    progress: Progress | None = None,
) -> SimulationResult:
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
    read = _configuration(configuration)
    at_once = _checked(read, requests, in_flight, [policy])
    return _simulated(read, requests, at_once, policy, seed, progress)


def compare(
    configuration: Configuration | Mapping[str, Any] | str | Path,
    *,
    requests: int = 10_000,
    in_flight: int | None = None,
    policies: Sequence[Policy] = POLICIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> ComparisonResult:
    """Answer the same requests under several policies; arguments and errors as for ``simulate``."""
    started = time.perf_counter()
    read = _configuration(configuration)
    at_once = _checked(read, requests, in_flight, policies)
    found = []
    for policy in policies:
        found.append(_simulated(read, requests, at_once, policy, seed, progress))
        if found[-1].interrupted:
            break
    return ComparisonResult(seed=seed, seconds=time.perf_counter() - started, simulations=tuple(found))


def policies_named(names: Sequence[str]) -> tuple[Policy, ...]:
    """Policies by their names, each once; all of them if there are none.

    Raises:
        OptionError: there is no such policy.
    """
    known = {str(policy): policy for policy in POLICIES}
    for name in names:
        if name not in known:
            raise OptionError(f"there is no policy {name!r}", where="--policy", mend=f"one of: {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in names)) or POLICIES


def _configuration(given: Configuration | Mapping[str, Any] | str | Path) -> Configuration:
    return given if isinstance(given, Configuration) else Configuration.read(given)


def _checked(configuration: Configuration, requests: int, in_flight: int | None, policies: Sequence[str]) -> int:
    """How many requests are in flight; raises where an option or the configuration is of no use."""
    if requests < 1:
        raise OptionError(f"{requests} requests are none", where="--requests")
    if requests > MOST:
        raise OptionError(f"{requests:,} requests are too many", where="--requests", mend=f"{MOST:,} at most")
    policies_named(policies)
    for group, values in configuration.values.items():
        if group not in configuration.simulation.generator:
            equal = ", ".join([f"{1 / len(values):.2g}"] * len(values))
            raise OptionError(
                f"nothing says how likely the values of {group!r} are",
                where="simulation.generator",
                mend=f"write {group}: [{equal}] there, for {', '.join(values)}",
            )
    at_once = configuration.simulation.in_flight if in_flight is None else in_flight
    if at_once < 1:
        raise OptionError(f"{at_once} requests in flight are none", where="--in-flight")
    return at_once


def _simulated(
    configuration: Configuration, requests: int, in_flight: int, policy: Policy, seed: int, progress: Progress | None
) -> SimulationResult:
    started = time.perf_counter()
    described = configuration.simulation
    stream = Requests({one.name: one.share for one in configuration.conditions}, seed=seed)
    generator = Generator(
        {
            group: dict(zip(values, described.generator[group], strict=True))
            for group, values in configuration.values.items()
        },
        obeys=described.obeys,
        unrecognised=described.unrecognised,
        seed=seed,
    )
    desk = desk_for(policy, configuration, in_flight=in_flight, seed=seed)
    flight = InFlight(seed=seed)
    delivered = Delivered(configuration.values, requests)
    under_way: dict[int, tuple[Any, Must, bool, bool]] = {}
    interventions = calls = done = 0
    interrupted = False
    try:
        while done < requests:
            while len(flight) < in_flight and delivered.asked < requests:
                conditions = stream.next()
                number = delivered.ask(conditions)
                ticket, must = desk.admit(conditions)
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
            again = desk.complete(ticket, item)
            if again is not None:
                under_way[number] = (*again, True, changed or bool(must))
                flight.add(number)
                continue
            del under_way[number]
            delivered.deliver(number, item)
            done += 1
            if progress is not None and not done % TOLD:
                progress(f"simulating {policy}", done / requests)
    except KeyboardInterrupt:
        interrupted = True
        if not done:
            raise LimitError("the simulation was stopped before any request was answered") from None
    kept = [_kept(requirement, delivered, desk) for requirement in configuration.requirements]
    longest: dict[str, int] = {}
    for one in kept:
        for value, gap in one.longest_gap.items():
            longest[value] = max(gap, longest.get(value, 0))
    return SimulationResult(
        seed=seed,
        seconds=time.perf_counter() - started,
        policy=policy,
        requests=delivered.answered(),
        in_flight=in_flight,
        order=desk.order,
        violations=sum(one.violations for one in kept),
        reported=desk.reported,
        interventions=interventions,
        generator_calls=calls,
        unrecognised=delivered.unrecognised(),
        longest_gap=longest,
        specifications=tuple(kept),
        interrupted=interrupted,
    )


def _kept(requirement: Requirement, delivered: Delivered, desk: Desk) -> Kept:
    """One requirement, judged by what was delivered."""
    groups = list(zip(requirement.groups, requirement.values, strict=True))
    shown = delivered.sequence(requirement.condition, groups, order=desk.order)
    labels, repeated = requirement.labels, requirement.repeated
    found = judge(shown, len(labels), None if repeated is None else dict(enumerate(repeated, 1)))
    return Kept(
        name=requirement.name,
        items=found.items,
        violations=sum(found.missed),
        missed=dict(zip(labels, found.missed, strict=True)),
        longest_gap=dict(zip(labels, found.longest_gap, strict=True)),
        deadlines=None if repeated is None else dict(zip(labels, repeated, strict=True)),
    )
