"""Retries and slack from how often instructions work: what they are worth, and the smallest that are enough.

A deadline is missed only if instructions fail for good, after all retries. How likely that is in a number of requests
has a bound that follows from how likely one attempt works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, expm1, floor, inf, log1p, log10
from typing import Any

from pydantic import BaseModel, ConfigDict

from evenhand.errors import OptionError
from evenhand.genai.feasibility import Component, components, feasible
from evenhand.genai.recovery import recovery
from evenhand.genai.specification import Configuration
from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Observed, Unknown

MOST_RETRIES = 60
"""Retries that are tried, and slack; a generator that needs more does not know what is asked of it."""

MOST_REQUESTS = 10**15
"""Requests that are spoken of; nobody will make more."""

LEAST = 1e-300
"""What a smaller probability is rounded up to, if it is not 0."""

ROUNDING = 1e-9
"""What bounds are wider by, which rounding cannot reach."""


class Success(BaseModel):
    """How often one attempt shows what its prompt asks for, all of it.

    Attributes:
        rate: counted, by specification; empty if it was given.
        least: the share that is relied on: of all groups together, so that it holds for items asked for several.
        source: where it comes from, in words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: dict[str, Observed | Unknown]
    least: float
    source: str

    @classmethod
    def simulated(cls, configuration: Configuration) -> Success:
        """As the configuration's simulation says: it obeys, and what it shows is recognised."""
        told = configuration.simulation
        said = bool({"obeys", "unrecognised"} & told.model_fields_set)
        return cls(
            rate={},
            least=told.obeys * (1 - told.unrecognised),
            source="as the simulation says" if said else "for want of anything measured",
        )

    @classmethod
    def counted(
        cls, configuration: Configuration, counts: Mapping[str, Mapping[str, int]], *, confidence: float = 0.95
    ) -> Success:
        """As counted by an ``Enforcer``, whose attempts are taken to be independent and alike.

        The interval's lower ends hold for all specifications together (Bonferroni). Specifications that share groups
        are asked for by the same instructions, and the least sure of them counts. An item that is asked for several
        groups which are kept apart must show all of it at once: failures add up.

        Args:
            counts: specification -> ``asked`` and ``obeyed``, as in ``Enforcer.counts``.
            confidence: of the lower ends.

        Raises:
            OptionError: counts that cannot be, of specifications that are not there, or a confidence out of range.
        """
        if not 0 < confidence < 1:
            raise OptionError(f"confidence is {confidence}", mend="Give a number between 0 and 1.")
        several = components(configuration)
        names = [one.name for component in several for one in component.requirements]
        known = {one.name for one in configuration.requirements}
        for name in counts:
            if name not in known:
                raise OptionError(f"there is no specification {name!r}", mend=f"one of: {', '.join(sorted(known))}")
        rate = {name: _rate(counts.get(name, {}), name, confidence, len(names)) for name in names}
        failing = 0.0
        for component in several:
            seen = [found for one in component.requirements if isinstance(found := rate[one.name], Observed)]
            failing += 1 - min((found.low for found in seen), default=0.0)
        return cls(rate=rate, least=max(0.0, 1 - failing), source="counted")

    def statement(self) -> str:
        """In one sentence."""
        if not self.rate:
            return f"an attempt works {at_least(self.least)} of the time, {self.source}"
        if all(isinstance(found, Unknown) for found in self.rate.values()):
            return "how often instructions work is not known, as no item had to show anything yet"
        said = []
        for name, found in self.rate.items():
            if isinstance(found, Unknown):
                said.append(f"{name}: not known, as {found.reason}")
            else:
                hits = round(found.value * found.n)
                said.append(f"{name}: {hits:,} of {found.n:,} attempts worked, at least {at_least(found.low)}")
        together = f"; taken together at least {at_least(self.least)}" if len(said) > 1 else ""
        confidence = next(
            (f" ({one.confidence:.0%} sure)" for one in self.rate.values() if isinstance(one, Observed)), ""
        )
        return "; ".join(said) + together + confidence


class Settings(BaseModel):
    """Retries and slack, and how likely a deadline is missed with them.

    Attributes:
        retries, slack: as in a configuration.
        in_flight: requests at once that are counted on; None: any number.
        requests: in which no deadline is to be missed.
        failing: an instruction fails for good, after all retries, at most so often.
        misses: any deadline is missed in so many requests with at most this probability.
        tolerated: what it may be.
        good_for: in so many requests a miss is no likelier than that; None: in any number.
        slack_counts: whether ``misses`` is smaller for the slack.
        why: it does not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    retries: int
    slack: int
    in_flight: int | None
    requests: int
    failing: float
    misses: float
    tolerated: float
    good_for: int | None
    slack_counts: bool
    why: str

    @property
    def enough(self) -> bool:
        """Whether a miss is no likelier than is tolerated."""
        return self.misses <= self.tolerated

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**self.model_dump(mode="json"), "enough": self.enough}

    def statement(self) -> str:
        """In one sentence."""
        how = "with one request at a time " if self.slack_counts else ""
        misses = "may be 1" if self.misses >= 1 else f"is {at_most(self.misses)} at most"
        text = (
            f"{_so_many(self.retries, 'retry', 'retries')} and slack {self.slack}: an instruction fails for good"
            f" {at_most(self.failing)} of the time at most; {how}the probability of any missed deadline in"
            f" {self.requests:,} requests {misses}"
        )
        if not self.enough:
            so_many = _so_many(self.good_for or 0, "request", "requests")
            text += f", and {at_most(self.tolerated)} is tolerated: that is enough for {so_many}"
        return text + (f"; {self.why}" if self.why and not self.slack_counts else "")


@dataclass(frozen=True)
class _Credit:
    """Within how many items failures of one component must lie to add up; None: the slack is not counted."""

    window: int | None
    why: str


def worth(
    configuration: Configuration,
    success: Success,
    *,
    retries: int | None = None,
    slack: int | None = None,
    in_flight: int | None = 1,
    requests: int | None = None,
    tolerated: float | None = None,
) -> Settings:
    """What retries and slack are worth: a bound on the probability that any deadline is missed.

    Let an attempt work with probability ``p`` or more, whatever happened before. A slot whose item must show something
    fails for good with probability ``q = (1 - p)^(retries + 1)`` at most. While none fails no deadline is missed, so
    that one is missed in ``N`` requests with probability ``1 - (1 - q)^N`` at most.

    With one request at a time, a failure takes away one item's room of the slack ``s``, and it is there again after
    ``w`` items that do not fail (``recovery``). A deadline is missed only after ``s + 1`` failures of which each comes
    within ``w`` items after the one before it: ``N q (1 - (1 - q)^w)^s`` at most, by the union over where the first
    may be. The lesser of both bounds is taken.

    With more in flight the slack is not counted: when a failure becomes known, items after it may have been admitted
    that relied on it, however many, and no slack of fewer items makes up for that.

    Items in which no value is recognised cost no room, and they only make failures rarer among the others: with ``v``
    of them, accepted or made again, no more than ``q`` of the others fail.

    Args:
        configuration: what is kept.
        success: of an attempt.
        retries, slack: as configured unless given.
        in_flight: 1 if a request is complete before the next; None: any number.
        requests: how many; as the configuration tolerates unless given.
        tolerated: probability of a miss in that many; as configured unless given.

    Raises:
        OptionError: a number out of range.
    """
    told = configuration.simulation
    retries = told.retries if retries is None else retries
    slack = told.slack if slack is None else slack
    requests = configuration.tolerated.requests if requests is None else requests
    tolerated = configuration.tolerated.misses if tolerated is None else tolerated
    if min(retries, slack) < 0 or requests < 1 or not 0 < tolerated < 1:
        raise OptionError(
            f"{retries} retries, slack {slack}, {requests} requests and a tolerated {tolerated} make no sense",
            mend="Retries and slack are 0 or more, requests 1 or more, and what is tolerated is between 0 and 1.",
        )
    failing = _up((1 - success.least) ** (retries + 1)) if success.least < 1 else 0.0
    several = [_credit(component, slack, in_flight) for component in components(configuration)]
    each = _one_of(requests, failing) if several else 0.0
    windows = [one.window for one in several if one.window is not None]
    chain = inf
    if slack and len(windows) == len(several):
        chain = sum(_up(failing * _one_of(window, failing) ** slack) if failing else 0.0 for window in windows)
    misses = min(each, requests * chain) * (1 + ROUNDING)
    return Settings(
        retries=retries,
        slack=slack,
        in_flight=in_flight,
        requests=requests,
        failing=failing,
        misses=min(1.0, misses),
        tolerated=tolerated,
        good_for=_good_for(failing if several else 0.0, chain, tolerated),
        slack_counts=requests * chain < each,
        why=next((one.why for one in several if one.why), ""),
    )


def choose(
    configuration: Configuration,
    success: Success,
    *,
    in_flight: int | None = 1,
    requests: int | None = None,
    tolerated: float | None = None,
) -> Settings | Unknown:
    """The smallest retries and slack with which a miss is no likelier than is tolerated.

    Smallest in the sum of both, and then in the slack: retries cost a call only where an instruction failed, slack
    changes more prompts always. Slack that cannot be kept is not tried, nor slack that counts for nothing.

    Args:
        configuration: what is kept; its own retries and slack do not matter.
        success: of an attempt.
        in_flight, requests, tolerated: as for ``worth``.

    Returns:
        Settings, or why there are none.
    """
    if success.least <= 0:
        return Unknown(reason="nothing is known of how often an instruction works, or it never does")
    best: Settings | None = None
    slack = 0
    while slack <= MOST_RETRIES:
        most = MOST_RETRIES if best is None else best.retries + best.slack - slack - 1
        if most < 0 or not feasible(configuration, slack=slack).feasible:
            break
        found = _fewest(configuration, success, slack, most, in_flight, requests, tolerated)
        if found is not None:
            best = found
        slack += 1
        if not _counts(configuration, slack, in_flight):
            break
    if best is None:
        return Unknown(reason=f"not even {MOST_RETRIES} retries are enough, if an instruction works so rarely")
    return best


def _fewest(
    configuration: Configuration,
    success: Success,
    slack: int,
    most: int,
    in_flight: int | None,
    requests: int | None,
    tolerated: float | None,
) -> Settings | None:
    """The fewest retries that are enough with a slack."""
    for retries in range(most + 1):
        found = worth(
            configuration,
            success,
            retries=retries,
            slack=slack,
            in_flight=in_flight,
            requests=requests,
            tolerated=tolerated,
        )
        if found.enough:
            return found
    return None


def _counts(configuration: Configuration, slack: int, in_flight: int | None) -> bool:
    return all(_credit(component, slack, in_flight).window is not None for component in components(configuration))


def _credit(component: Component, slack: int, in_flight: int | None) -> _Credit:
    if not slack:
        return _Credit(None, "")
    if in_flight != 1:
        several = "any number" if in_flight is None else f"{in_flight:,}"
        return _Credit(None, f"with {several} in flight slack does not help: items under way relied on what failed")
    if len(component.requirements) > 1:
        return _Credit(None, "the slack is not counted where several specifications share a group")
    window = recovery(component, slack)
    if window is None:
        return _Credit(None, "the slack is not counted, as it is not known when it is there again")
    return _Credit(window, "")


def _one_of(several: int, failing: float) -> float:
    """The probability that one of several fails, independently."""
    return -expm1(several * log1p(-failing)) if failing < 1 else 1.0


def _good_for(failing: float, chain: float, tolerated: float) -> int | None:
    """Requests with which a miss is no likelier than is tolerated; None: any number."""
    if not failing or not chain:
        return None
    by_each = log1p(-tolerated) / log1p(-failing) if failing < 1 else 0.0
    return min(MOST_REQUESTS, floor(max(by_each, tolerated / chain) * (1 - ROUNDING)))


def _up(probability: float) -> float:
    return max(probability, LEAST)


def _rate(counts: Mapping[str, int], name: str, confidence: float, several: int) -> Observed | Unknown:
    asked, obeyed = counts.get("asked", 0), counts.get("obeyed", 0)
    if not 0 <= obeyed <= asked:
        raise OptionError(f"{obeyed} of {asked} attempts cannot have worked", where=name)
    if not asked:
        return Unknown(reason="no item had to show anything yet")
    low, high = clopper_pearson(obeyed, asked, 1 - (1 - confidence) / several)
    return Observed(
        value=obeyed / asked,
        n=asked,
        low=float(low),
        high=float(high),
        confidence=confidence,
        method=f"Clopper-Pearson, {several} together",
    )


def at_least(share: float) -> str:
    """A share in percent, rounded down."""
    return f"{floor(1000 * share) / 10:.1f}%"


def at_most(share: float) -> str:
    """A share in percent, rounded up to two digits that say something."""
    if share <= 0:
        return "0%"
    power = floor(log10(100 * share)) - 1
    digits = ceil(100 * share / 10.0**power * (1 - ROUNDING))
    return f"{digits * 10.0**power:.{max(0, -power)}f}%" if power > -12 else f"{digits / 10}e{power + 1}%"


def _so_many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
