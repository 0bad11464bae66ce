"""Retries and slack: bounds on the probability of a missed deadline, and the smallest sufficient number of retries.

A deadline is missed only if instructions fail after all retries. The probability of this within a number of
requests is bounded using the success rate of one attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil, expm1, floor, inf, log1p, log10

from pydantic import computed_field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count
from evenhand.errors import OptionError
from evenhand.genai.games.feasibility import RequirementComponent, find_components
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.level import bonferroni
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed, Unknown

MAX_RETRIES = 60
"""Maximum number of retries that are tried."""

CONFIDENCE = 0.95
"""Joint confidence level of the lower bounds on counted success rates."""

MAX_REQUESTS = 10**15
"""Maximum number of requests for which a bound is stated."""

SMALLEST_PROBABILITY = 1e-300
"""Positive probabilities below this are rounded up to it."""

ROUNDING_MARGIN = 1e-9
"""Relative margin of bounds, which exceeds rounding errors."""


class AttemptSuccess(ResultPart):
    """Success rate of one attempt to show all requested values.

    Attributes:
        rate: Observed rate by specification. Empty if the rate was stated.
        least: Lower bound of the rate for all groups jointly, and therefore for items with instructions about several
            groups.
        source: Origin of the rate: ``counted``, ``simulation`` or ``nothing``.
    """

    rate: dict[str, Observed | Unknown]
    least: float
    source: str

    @classmethod
    def from_simulation(cls, configuration: GenerationConfig) -> AttemptSuccess:
        """Compute the success rate of the simulated generator, whose items must obey and be recognised."""
        simulated = configuration.simulated
        stated = bool({"obeys", "unrecognised"} & simulated.model_fields_set)
        rate = simulated.obeys * (1 - simulated.unrecognised)
        return cls(rate={}, least=rate, source="simulation" if stated else "nothing")

    @classmethod
    def from_counts(cls, configuration: GenerationConfig, counts: Mapping[str, Mapping[str, int]]) -> AttemptSuccess:
        """Compute success rates from the counts of an ``Enforcer``, for independent and identical attempts.

        The lower bounds hold jointly for all specifications (Bonferroni). Specifications that share
        groups are requested by the same instructions, so their smallest lower bound is used. An item that is requested
        for several unrelated groups must show all values, so their failure rates are added.

        Args:
            configuration: Configuration of the specifications.
            counts: Counts ``asked`` and ``obeyed`` by specification, as in ``Enforcer.counts``.

        Raises:
            OptionError: A count is out of range, or a specification is unknown.
        """
        names = sorted(requirement.name for requirement in configuration.requirements)
        for name in counts:
            check_known(name, names, "specification")
        parts = split_specifications(configuration)
        level = bonferroni(CONFIDENCE, max(1, sum(map(len, parts))))
        rate = {name: _observed_success(counts.get(name, {}), name, level) for part in parts for name in part}
        failing = sum(1 - _lowest_rate(rate[name] for name in part) for part in parts)
        method = f"Clopper-Pearson, {len(rate)} together"
        joint = {
            name: success.model_copy(update={"confidence": CONFIDENCE, "method": method})
            if isinstance(success, Observed)
            else success
            for name, success in rate.items()
        }
        return cls(rate=joint, least=max(0.0, 1 - failing), source="counted")

    def of(self, names: Collection[str]) -> AttemptSuccess:
        """Select the success rate of attempts whose instructions concern some specifications only."""
        rate = {name: success for name, success in self.rate.items() if name in names}
        if not rate:
            return self
        return self.model_copy(update={"rate": rate, "least": _lowest_rate(rate.values())})

    def statement(self) -> str:
        """Describe the success rate in one sentence."""
        if self.source == "nothing":
            return (
                "the success rate of instructions is not known. `evenhand genai generate` counts it in its state; or "
                "state it as obeys: under simulation:"
            )
        if not self.rate:
            return f"an attempt succeeds {format_at_least(self.least)} of the time, according to the simulation"
        observed = [success for success in self.rate.values() if isinstance(success, Observed)]
        if not observed:
            return "the success rate of instructions is not known, as no item has been required to show a value yet"
        parts = [
            f"{name}: not known, as {success.reason}"
            if isinstance(success, Unknown)
            else f"{name}: {round(success.value * success.n):,} of {success.n:,} attempts succeeded, at least "
            f"{format_at_least(success.low)}"
            for name, success in self.rate.items()
        ]
        return f"{'; '.join(parts)} (with {observed[0].confidence:.0%} confidence)"


class RetrySettings(ResultPart):
    """Retries and slack, and the probability of a missed deadline.

    Attributes:
        about: Specifications of the deadlines. Empty for all of them.
        retries, slack: As in a configuration.
        in_flight: Number of concurrent requests. None for any number.
        requests: Number of requests that ``misses`` refers to.
        failing: Maximum probability that an instruction fails after all retries.
        misses: Maximum probability that any deadline is missed.
        tolerated: Tolerated probability.
        good_for: Number of requests for which the tolerance is met. None for any number.
        slack_counts: Whether the slack reduces ``misses``.
        why: Reason why it does not.
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

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented use
    @property
    def enough(self) -> bool:
        """Whether the probability of a missed deadline is tolerated."""
        return self.misses <= self.tolerated

    def statement(self) -> str:
        """Describe the settings in one sentence."""
        how = "with one request at a time " if self.slack_counts else ""
        misses = "may be 1" if self.misses >= 1 else f"is {format_at_most(self.misses)} at most"
        about = f"{' and '.join(self.about)}, requested alone: " if self.about else ""
        text = (
            f"{about}{format_count(self.retries, 'retry', 'retries')} and slack {self.slack}: an instruction fails "
            f"after all retries {format_at_most(self.failing)} of the time at most; {how}the probability of any missed "
            f"deadline in {self.requests:,} requests {misses}"
        )
        if not self.enough:
            good = format_count(self.good_for or 0, "request", "requests")
            text += f", and {format_at_most(self.tolerated)} is tolerated: that is sufficient for {good}"
        return text + (f"; {self.why}" if self.why and not self.slack_counts else "")


def bound_misses(
    configuration: GenerationConfig,
    success: AttemptSuccess,
    *,
    retries: int | None = None,
    slack: int | None = None,
    in_flight: int | None = 1,
    about: tuple[str, ...] = (),
) -> RetrySettings:
    """Bound the probability that any deadline is missed, given the numbers of retries and slack.

    Let an attempt succeed with probability ``p`` or more, given all earlier attempts. A slot with an instruction fails
    after all retries with probability at most ``q = (1 - p)^(retries + 1)``. Without such failures no deadline is
    missed, so the probability of a miss in ``N`` requests is at most ``1 - (1 - q)^N``.

    With one request at a time, a failure uses one item of the slack ``s``, which is restored after ``w`` items without
    failures (``recovery_window``). A deadline is missed only after ``s + 1`` failures, each within ``w`` items of the
    previous one. By the union bound over the position of the first, the probability is at most
    ``N q (1 - (1 - q)^w)^s``. The smaller bound is used.

    With more requests in flight the slack is not counted. When a failure becomes known, any number of later items may
    have been admitted that relied on it.

    Items without a recognised value use no slack. They only make failures rarer among the other items: at most ``q`` of
    the others fail.

    Args:
        configuration: Configuration, with the deadlines and the tolerated probability of a miss.
        success: Success rate of an attempt.
        retries, slack: If None, those of the configuration.
        in_flight: 1 if a request is complete before the next one. None for any number.
        about: Names of specifications. Only their deadlines and success rates are used.

    Raises:
        OptionError: A number is out of range.
    """
    success = success.of(about)
    retries = configuration.simulation.retries if retries is None else retries
    slack = configuration.simulation.slack if slack is None else slack
    requests, tolerated = configuration.tolerated.requests, configuration.tolerated.misses
    if min(retries, slack) < 0:
        raise OptionError(f"retries and slack must be nonnegative, got {retries} and {slack}")
    failing = max((1 - success.least) ** (retries + 1), SMALLEST_PROBABILITY) if success.least < 1 else 0.0
    windows = [
        _slack_window(component, slack, in_flight)
        for component in find_components(configuration)
        if not about or any(requirement.name in about for requirement in component.requirements)
    ]
    reasons = [reason for _, reason in windows if reason]
    each = _any_fails(requests, failing) if windows else 0.0
    chain = inf
    if slack and not reasons:
        chain = sum(
            max(failing * _any_fails(window, failing) ** slack, SMALLEST_PROBABILITY) if failing else 0.0
            for window, _ in windows
        )
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
        good_for=_tolerable_requests(failing if windows else 0.0, chain, tolerated),
        slack_counts=requests * chain < each,
        why=reasons[0] if reasons else "",
    )


def choose_retries(
    configuration: GenerationConfig,
    success: AttemptSuccess,
    *,
    slack: int | None = None,
    in_flight: int | None = 1,
    about: tuple[str, ...] = (),
) -> RetrySettings | Unknown:
    """Choose the smallest number of retries for which the probability of a missed deadline is tolerated.

    The arguments are those of ``bound_misses``. The result is the settings, or the reason why there are none.
    """
    success = success.of(about)
    if success.least <= 0:
        return Unknown(reason="the success rate of instructions is unknown or 0")
    settings = (
        bound_misses(configuration, success, retries=retries, slack=slack, in_flight=in_flight, about=about)
        for retries in range(MAX_RETRIES + 1)
    )
    few = Unknown(reason=f"instructions succeed so rarely that even {MAX_RETRIES} retries are insufficient")
    return next((setting for setting in settings if setting.enough), few)


def rate_retries(
    configuration: GenerationConfig,
    success: AttemptSuccess,
    *,
    retries: int | None = None,
    slack: int | None = None,
    in_flight: int | None = 1,
) -> list[tuple[RetrySettings, RetrySettings | Unknown]]:
    """Bound the misses of each component, and choose its smallest sufficient number of retries.

    The arguments are those of ``bound_misses``. See ``split_specifications`` for the components.
    """
    rated = []
    for about in split_specifications(configuration, success):
        bound = bound_misses(configuration, success, retries=retries, slack=slack, in_flight=in_flight, about=about)
        enough = choose_retries(configuration, success, slack=slack, in_flight=in_flight, about=about)
        rated.append((bound, enough))
    return rated


def split_specifications(
    configuration: GenerationConfig, success: AttemptSuccess | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the names of the specifications of each component.

    With counted success rates, each component is bounded by its own counts. The bounds are not added: the success rate
    of attempts at several components together was not counted, and its worst case requires far more retries.

    Args:
        configuration: Configuration with the specifications.
        success: Success rates. If they were not counted, one empty entry represents all specifications.
    """
    components = find_components(configuration)
    if success is not None and (not success.rate or len(components) < 2):
        return ((),)
    return tuple(tuple(requirement.name for requirement in component.requirements) for component in components)


def _lowest_rate(rates: Iterable[Observed | Unknown]) -> float:
    """Return the smallest lower bound of observed rates. 0 if there are none."""
    return min((rate.low for rate in rates if isinstance(rate, Observed)), default=0.0)


def _slack_window(component: RequirementComponent, slack: int, in_flight: int | None) -> tuple[int, str]:
    """Compute the number of items within which failures add up, or the reason why the slack is not counted."""
    if not slack:
        return 0, ""
    if in_flight != 1:
        number = "any number" if in_flight is None else f"{in_flight:,}"
        return 0, f"with {number} in flight, slack does not help: pending items relied on the failed one"
    if len(component.requirements) > 1:
        return 0, "the slack is not counted where several specifications share a group"
    window = recovery_window(component, slack)
    return (0, "the slack is not counted, as it is not known when it is restored") if window is None else (window, "")


def _any_fails(trials: int, failing: float) -> float:
    """Compute the probability that any of several independent trials fails."""
    return -expm1(trials * log1p(-failing)) if failing < 1 else 1.0


def _tolerable_requests(failing: float, chain: float, tolerated: float) -> int | None:
    """Compute the number of requests for which the tolerance is met. None for any number."""
    if not failing or not chain:
        return None
    by_each = log1p(-tolerated) / log1p(-failing) if failing < 1 else 0.0
    return min(MAX_REQUESTS, floor(max(by_each, tolerated / chain) * (1 - ROUNDING_MARGIN)))


def _observed_success(counts: Mapping[str, int], name: str, confidence: float) -> Observed | Unknown:
    attempts, obeyed = counts.get("asked", 0), counts.get("obeyed", 0)
    if not 0 <= obeyed <= attempts:
        raise OptionError(f"{obeyed} of {attempts} attempts cannot have succeeded", location=name)
    return observed_rate(obeyed, attempts, confidence, if_empty="no item has been required to show a value yet")


def format_at_least(share: float) -> str:
    """Format a share in percent, rounded down."""
    return f"{floor(1000 * share) / 10:.1f}%"


def format_at_most(share: float) -> str:
    """Format a share in percent, rounded up to two significant digits."""
    if share <= 0:
        return "0%"
    power = floor(log10(100 * share)) - 1
    digits = ceil(100 * share / 10.0**power * (1 - ROUNDING_MARGIN))
    return f"{digits * 10.0**power:.{max(0, -power)}f}%" if power > -12 else f"{digits / 10}e{power + 1}%"


# Recovery of the slack
#
# With slack ``s``, a state usually has level ``s``. An item that ignores its instruction reduces the level by at most
# one, and no deadline is missed before the level falls below 0. While the level is below ``s``, every item has an
# instruction. The number of items until the level is ``s`` again determines how close together failures must be to add
# up.


def recovery_window(component: RequirementComponent, slack: int) -> int | None:
    """Compute the number of obedient items after which the full slack is restored.

    Let one specification have ``n`` values, with deadlines of at least ``n`` even if they are ``slack`` earlier. The
    window is then ``n - 1``. Call a value critical if it has less room than the slack, counting the values that are due
    no later. Only a value that is due within ``n + slack - 1`` items can be critical, and a value that has just been
    shown is due later. While a value is critical, every item has an instruction for a value that is due no later than a
    critical one, and the value that it shows moves behind all critical values. Each such item therefore moves the last
    critical value forward by one place, takes no room from it, and makes no value behind it critical. After a failure,
    that place is at most ``n - 1``, as the value that the item did show is behind.

    Only items with a recognised value count. Other items change nothing.

    Returns:
        The number of items. None if it is unknown, which holds for shorter deadlines and several specifications.
    """
    if len(component.requirements) != 1 or slack < 1:
        return None
    deadlines = component.requirements[0].repeated or ()
    return len(deadlines) - 1 if min(deadlines) - slack >= len(deadlines) else None
