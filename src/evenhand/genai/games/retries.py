"""Retries and slack from how often instructions work: what they are worth, and the smallest that are enough.

A deadline is missed only if instructions fail for good, after all retries. How likely that is in a number of requests
has a bound that follows from how likely one attempt works.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, expm1, floor, inf, log1p, log10
from typing import Any

from evenhand.core.result_part import ResultPart
from evenhand.errors import OptionError
from evenhand.genai.games.feasibility import RequirementComponent, check_feasibility, find_components
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Observed, Unknown

MAX_RETRIES = 60
"""Retries that are tried, and slack; a generator that needs more does not know what is asked of it."""

MAX_REQUESTS = 10**15
"""Longest stretch of requests that a bound is stated for; longer ones are cut to it."""

SMALLEST_PROBABILITY = 1e-300
"""What a smaller probability is rounded up to, if it is not 0."""

ROUNDING_MARGIN = 1e-9
"""What bounds are wider by, which rounding cannot reach."""


class AttemptSuccess(ResultPart):
    """How often one attempt shows what its prompt asks for, all of it.

    Attributes:
        rate: counted, by specification; empty if it was given.
        least: the share that is relied on: of all groups together, so that it holds for items asked for several.
        source: where it comes from: ``counted``, ``simulation``, ``nothing``, or in words.
    """

    rate: dict[str, Observed | Unknown]
    least: float
    source: str

    @classmethod
    def from_simulation(cls, configuration: GenerationConfig) -> AttemptSuccess:
        """As the configuration's simulation says: it obeys, and what it shows is recognised."""
        told = configuration.simulated
        said = bool({"obeys", "unrecognised"} & told.model_fields_set)
        return cls(
            rate={},
            least=told.obeys * (1 - told.unrecognised),
            source="simulation" if said else "nothing",
        )

    @classmethod
    def from_counts(
        cls, configuration: GenerationConfig, counts: Mapping[str, Mapping[str, int]], *, confidence: float = 0.95
    ) -> AttemptSuccess:
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
            raise OptionError(f"confidence is {confidence}", hint="Give a number between 0 and 1.")
        several = find_components(configuration)
        names = [one.name for component in several for one in component.requirements]
        known = {one.name for one in configuration.requirements}
        for name in counts:
            if name not in known:
                raise OptionError(f"there is no specification {name!r}", hint=f"one of: {', '.join(sorted(known))}")
        rate = {name: _observed_rate(counts.get(name, {}), name, confidence, len(names)) for name in names}
        failing = 0.0
        for component in several:
            seen = [found for one in component.requirements if isinstance(found := rate[one.name], Observed)]
            failing += 1 - min((found.low for found in seen), default=0.0)
        return cls(rate=rate, least=max(0.0, 1 - failing), source="counted")

    def of(self, names: Collection[str]) -> AttemptSuccess:
        """Return the success of attempts that ask for some specifications and nothing else."""
        rate = {name: found for name, found in self.rate.items() if name in names}
        if not rate:
            return self
        return self.model_copy(
            update={
                "rate": rate,
                "least": min((one.low for one in rate.values() if isinstance(one, Observed)), default=0.0),
            }
        )

    def statement(self) -> str:
        """In one sentence."""
        if self.source == "nothing":
            return (
                "nothing was measured: how often instructions work is not known. `evenhand genai generate` counts it, "
                "in its state; or write it as obeys: under simulation:"
            )
        if not self.rate:
            return f"an attempt works {format_at_least(self.least)} of the time, as the simulation says"
        if all(isinstance(found, Unknown) for found in self.rate.values()):
            return "how often instructions work is not known, as no item had to show anything yet"
        said = []
        for name, found in self.rate.items():
            if isinstance(found, Unknown):
                said.append(f"{name}: not known, as {found.reason}")
            else:
                hits = round(found.value * found.n)
                said.append(f"{name}: {hits:,} of {found.n:,} attempts worked, at least {format_at_least(found.low)}")
        confidence = next(
            (f" ({one.confidence:.0%} sure)" for one in self.rate.values() if isinstance(one, Observed)), ""
        )
        return "; ".join(said) + confidence


class RetrySettings(ResultPart):
    """Retries and slack, and how likely a deadline is missed with them.

    Attributes:
        about: the specifications whose deadlines are meant, if not all of them.
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

    about: tuple[str, ...] = ()
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
        """Return it as plain JSON values."""
        return {**self.model_dump(mode="json"), "enough": self.enough}

    def statement(self) -> str:
        """In one sentence."""
        how = "with one request at a time " if self.slack_counts else ""
        misses = "may be 1" if self.misses >= 1 else f"is {format_at_most(self.misses)} at most"
        about = f"{' and '.join(self.about)}, asked for alone: " if self.about else ""
        text = (
            f"{about}{_format_count(self.retries, 'retry', 'retries')} and slack {self.slack}: an instruction"
            f" fails for good {format_at_most(self.failing)} of the time at most; {how}the probability of any missed"
            f" deadline in {self.requests:,} requests {misses}"
        )
        if not self.enough:
            so_many = _format_count(self.good_for or 0, "request", "requests")
            text += f", and {format_at_most(self.tolerated)} is tolerated: that is enough for {so_many}"
        return text + (f"; {self.why}" if self.why and not self.slack_counts else "")


@dataclass(frozen=True)
class _SlackCredit:
    """Within how many items failures of one component must lie to add up; None: the slack is not counted."""

    window: int | None
    why: str


def bound_misses(
    configuration: GenerationConfig,
    success: AttemptSuccess,
    *,
    retries: int | None = None,
    slack: int | None = None,
    in_flight: int | None = 1,
    requests: int | None = None,
    tolerated: float | None = None,
    about: tuple[str, ...] = (),
) -> RetrySettings:
    """Bound the probability that any deadline is missed, given the numbers of retries and slack.

    Let an attempt work with probability ``p`` or more, whatever happened before. A slot whose item must show something
    fails for good with probability ``q = (1 - p)^(retries + 1)`` at most. While none fails no deadline is missed, so
    that one is missed in ``N`` requests with probability ``1 - (1 - q)^N`` at most.

    With one request at a time, a failure takes away one item's room of the slack ``s``, and it is there again after
    ``w`` items that do not fail (``recovery_window``). A deadline is missed only after ``s + 1`` failures of which each
    comes within ``w`` items after the one before it: ``N q (1 - (1 - q)^w)^s`` at most, by the union over where the
    first may be. The lesser of both bounds is taken.

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
        about: names of specifications: only their deadlines, by their own success.

    Raises:
        OptionError: a number out of range.
    """
    success = success.of(about) if about else success
    told = configuration.simulation
    retries = told.retries if retries is None else retries
    slack = told.slack if slack is None else slack
    requests = configuration.tolerated.requests if requests is None else requests
    tolerated = configuration.tolerated.misses if tolerated is None else tolerated
    if min(retries, slack) < 0 or requests < 1 or not 0 < tolerated < 1:
        raise OptionError(
            f"{retries} retries, slack {slack}, {requests} requests and a tolerated {tolerated} make no sense",
            hint="Retries and slack are 0 or more, requests 1 or more, and what is tolerated is between 0 and 1.",
        )
    failing = _round_up((1 - success.least) ** (retries + 1)) if success.least < 1 else 0.0
    several = [_slack_credit(component, slack, in_flight) for component in _components_about(configuration, about)]
    each = _any_fails(requests, failing) if several else 0.0
    windows = [one.window for one in several if one.window is not None]
    chain = inf
    if slack and len(windows) == len(several):
        chain = sum(_round_up(failing * _any_fails(window, failing) ** slack) if failing else 0.0 for window in windows)
    misses = min(each, requests * chain) * (1 + ROUNDING_MARGIN)
    return RetrySettings(
        about=about,
        retries=retries,
        slack=slack,
        in_flight=in_flight,
        requests=requests,
        failing=failing,
        misses=min(1.0, misses),
        tolerated=tolerated,
        good_for=_tolerable_requests(failing if several else 0.0, chain, tolerated),
        slack_counts=requests * chain < each,
        why=next((one.why for one in several if one.why), ""),
    )


def choose_retries(
    configuration: GenerationConfig,
    success: AttemptSuccess,
    *,
    in_flight: int | None = 1,
    requests: int | None = None,
    tolerated: float | None = None,
    about: tuple[str, ...] = (),
) -> RetrySettings | Unknown:
    """Return the smallest retries and slack with which a miss is no likelier than is tolerated.

    Smallest in the sum of both, and then in the slack: retries cost a call only where an instruction failed, slack
    changes more prompts always. Slack that cannot be kept is not tried, nor slack that counts for nothing.

    Args:
        configuration: what is kept; its own retries and slack do not matter.
        success: of an attempt.
        in_flight, requests, tolerated, about: as for ``bound_misses``.

    Returns:
        Settings, or why there are none.
    """
    success = success.of(about) if about else success
    if success.least <= 0:
        return Unknown(reason="nothing is known of how often an instruction works, or it never does")
    best: RetrySettings | None = None
    slack = 0
    while slack <= MAX_RETRIES:
        # Only a smaller sum than the best so far is of interest.
        most = MAX_RETRIES if best is None else best.retries + best.slack - slack - 1
        if most < 0 or not check_feasibility(configuration, slack=slack).feasible:
            break
        wanted = partial(
            bound_misses,
            configuration,
            success,
            slack=slack,
            in_flight=in_flight,
            requests=requests,
            tolerated=tolerated,
            about=about,
        )
        found = next((one for retries in range(most + 1) if (one := wanted(retries=retries)).enough), None)
        if found is not None:
            best = found
        slack += 1
        parts = _components_about(configuration, about)
        if not all(_slack_credit(component, slack, in_flight).window is not None for component in parts):
            break
    if best is None:
        return Unknown(reason=f"not even {MAX_RETRIES} retries are enough, if an instruction works so rarely")
    return best


def split_specifications(configuration: GenerationConfig, success: AttemptSuccess) -> tuple[tuple[str, ...], ...]:
    """Return the specifications to be bounded apart: those of groups that are kept apart, each by its own counts.

    Their bounds are not added up: how often attempts at several groups at once work was not counted, and the worst that
    it could be asks for far more retries than any of them needs. One empty entry stands for all of them together.
    """
    several = find_components(configuration)
    if not success.rate or len(several) < 2:
        return ((),)
    return tuple(tuple(one.name for one in component.requirements) for component in several)


def _components_about(configuration: GenerationConfig, about: tuple[str, ...]) -> list[RequirementComponent]:
    found = find_components(configuration)
    return [one for one in found if not about or any(part.name in about for part in one.requirements)]


def _slack_credit(component: RequirementComponent, slack: int, in_flight: int | None) -> _SlackCredit:
    if not slack:
        return _SlackCredit(None, "")
    if in_flight != 1:
        several = "any number" if in_flight is None else f"{in_flight:,}"
        return _SlackCredit(
            None, f"with {several} in flight slack does not help: items under way relied on what failed"
        )
    if len(component.requirements) > 1:
        return _SlackCredit(None, "the slack is not counted where several specifications share a group")
    window = recovery_window(component, slack)
    if window is None:
        return _SlackCredit(None, "the slack is not counted, as it is not known when it is there again")
    return _SlackCredit(window, "")


def _any_fails(several: int, failing: float) -> float:
    """Return the probability that one of several fails, independently."""
    return -expm1(several * log1p(-failing)) if failing < 1 else 1.0


def _tolerable_requests(failing: float, chain: float, tolerated: float) -> int | None:
    """Return requests with which a miss is no likelier than is tolerated; None: any number."""
    if not failing or not chain:
        return None
    by_each = log1p(-tolerated) / log1p(-failing) if failing < 1 else 0.0
    return min(MAX_REQUESTS, floor(max(by_each, tolerated / chain) * (1 - ROUNDING_MARGIN)))


def _round_up(probability: float) -> float:
    return max(probability, SMALLEST_PROBABILITY)


def _observed_rate(counts: Mapping[str, int], name: str, confidence: float, several: int) -> Observed | Unknown:
    asked, obeyed = counts.get("asked", 0), counts.get("obeyed", 0)
    if not 0 <= obeyed <= asked:
        raise OptionError(f"{obeyed} of {asked} attempts cannot have worked", location=name)
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


def format_at_least(share: float) -> str:
    """Return a share in percent, rounded down."""
    return f"{floor(1000 * share) / 10:.1f}%"


def format_at_most(share: float) -> str:
    """Return a share in percent, rounded up to two digits that say something."""
    if share <= 0:
        return "0%"
    power = floor(log10(100 * share)) - 1
    digits = ceil(100 * share / 10.0**power * (1 - ROUNDING_MARGIN))
    return f"{digits * 10.0**power:.{max(0, -power)}f}%" if power > -12 else f"{digits / 10}e{power + 1}%"


def _format_count(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"


# How soon an enforcer has its full slack again after an item of no use.
#
# With slack ``s`` a state has level ``s`` as a rule. An item that ignores what its prompt asked for takes the state
# one level down at most, and no deadline is missed before the level falls below 0. From a lower level every item is
# asked for something, until the state is back. How many items that takes decides how close failures must lie to add up.


def recovery_window(component: RequirementComponent, slack: int) -> int | None:
    """Compute the number of obedient items after which the full slack is restored.

    Let one specification have ``n`` values, and deadlines of ``n`` or more even when they are ``slack`` earlier. The
    window is then ``n - 1``. Call a value hurt if it has less room than the slack, counting the values that are due no
    later. Only a value that is due within ``n + slack - 1`` items can be hurt, and a value that has just been shown is
    due later. As long as a value is hurt, every item is asked for a value that is due no later than a hurt one, and
    what it shows goes behind all hurt values. Each such item therefore brings the last hurt value forward by one
    place, takes no room from it, and hurts no value behind it. After a failure, that place is ``n - 1`` at most, as the
    value that the item did show is behind.

    Only items with a recognised value count. The others change nothing.

    Returns:
        The number of items. None if it is unknown, which holds for shorter deadlines and several specifications.
    """
    if len(component.requirements) != 1 or slack < 1:
        return None
    deadlines = component.requirements[0].repeated or ()
    return len(deadlines) - 1 if min(deadlines) - slack >= len(deadlines) else None
