"""Plans of shields: expected inputs (groups, recommendations, costs, labels), property, horizon and kind.

Fairness does not depend on the expected inputs; only the expected cost does.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.shields.spec.properties import FairnessProperty, parse_kappa

Weights = tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]

LABEL_WAIT = 10_000
"""Default maximum number of decisions that await their label."""

MAX_COSTS = 127
"""Maximum number of costs, so that the levels and the marker of a dead state fit in a byte."""

IMPOSSIBLE_PROBABILITY = 1e-300
"""Substitute for probability 0, so that unfair ends remain forbidden (0 times infinity is not infinite)."""


@dataclass(frozen=True)
class Inputs:
    """Expected arrivals: independent groups, recommendations given the group, costs given both, and labels.

    Attributes:
        groups: Names of two or more groups.
        rate: Probability of each group. The sum is 1.
        accept: Probability of a recommendation to accept, by group.
        label: Probability of label 1 by group. None if labels are not used.
        costs: Possible costs of an override, ascending, 0 or more.
        weights: Probability of each cost given group and recommendation: ``weights[group][recommendation][cost]``.
            Default: always the first cost.
    """

    groups: tuple[str, ...]
    rate: tuple[float, ...]
    accept: tuple[float, ...]
    label: tuple[float, ...] | None = None
    costs: tuple[float, ...] = (1.0,)
    weights: Weights = ()

    def __post_init__(self) -> None:
        if not self.weights:
            first_cost = (1.0,) + (0.0,) * (len(self.costs) - 1)
            object.__setattr__(self, "weights", ((first_cost, first_cost),) * len(self.groups))
        if len(self.groups) < 2 or len(set(self.groups)) != len(self.groups):
            raise OptionError("a shield compares two or more groups with different names", location="groups")
        for name, values in (("rate", self.rate), ("accept", self.accept), ("label", self.label)):
            if values is None:
                continue
            if len(values) != len(self.groups):
                raise OptionError(f"{len(values)} values for {len(self.groups)} groups", location=name)
            for group, value in zip(self.groups, values, strict=True):
                if not 0 <= value <= 1:
                    raise OptionError(f"expected a probability, got {value}", location=f"{name} of group {group}")
        if abs(sum(self.rate) - 1) > 1e-6:
            raise OptionError(f"the rates of the groups add up to {sum(self.rate):g}, not to 1", location="rate")
        if not self.costs or any(not 0 <= cost < float("inf") for cost in self.costs):
            raise OptionError("costs must be finite and nonnegative", location="costs")
        if len(self.costs) > MAX_COSTS:
            raise OptionError(
                f"{len(self.costs)} different costs, but a table of actions distinguishes at most {MAX_COSTS}",
                location="costs",
                hint="bin them; 20 bins lose little",
            )
        if any(later <= earlier for earlier, later in zip(self.costs, self.costs[1:], strict=False)):
            raise OptionError("the costs are not ascending", location="costs")
        shaped = len(self.weights) == len(self.groups) and all(
            len(pair) == 2 and all(len(row) == len(self.costs) for row in pair) for pair in self.weights
        )
        if not shaped:
            raise OptionError("expected one weight per group, recommendation and cost", location="weights")
        for group, pair in zip(self.groups, self.weights, strict=True):
            for row in pair:
                if any(not 0 <= value <= 1 for value in row) or abs(sum(row) - 1) > 1e-6:
                    raise OptionError(
                        "the weights of the costs do not add up to 1", location=f"weights of group {group}"
                    )

    def joint(self) -> Floats:
        """Compute P(group, recommendation, cost), shape (groups, 2, costs); `IMPOSSIBLE_PROBABILITY` or more."""
        accept = np.array([[1 - value, value] for value in self.accept])
        joint = np.array(self.rate)[:, None, None] * accept[:, :, None] * np.array(self.weights)
        return np.asarray(np.maximum(joint, IMPOSSIBLE_PROBABILITY), dtype=np.float64)

    def labels(self) -> Floats:
        """Compute P(label | group), shape (groups, 2); never 0. Without labels everyone counts."""
        ones = np.array(self.label if self.label is not None else (1.0,) * len(self.groups))
        return np.asarray(np.maximum(np.stack([1 - ones, ones], axis=1), IMPOSSIBLE_PROBABILITY), dtype=np.float64)

    def position(self, group: str | int) -> int:
        """Return the position of a group.

        Raises:
            OptionError: The group is unknown.
        """
        if group in self.groups:
            return self.groups.index(str(group))
        if isinstance(group, int) and 0 <= group < len(self.groups):
            return group
        raise OptionError(f"unknown group {group!r}", hint=f"one of {', '.join(self.groups)}")


# The plan.


PlanKind: TypeAlias = Literal["finite", "static-fair", "static-bw", "dynamic", "feasible", "greedy"]
PLAN_KINDS: tuple[PlanKind, ...] = get_args(PlanKind)
PERIODIC_KINDS: tuple[PlanKind, ...] = ("static-fair", "static-bw", "dynamic", "greedy")
"""Kinds with several periods, see `periodic`."""
TerminalKind: TypeAlias = Literal["strict", "exempt", "soft"]
TERMINAL_KINDS: tuple[TerminalKind, ...] = get_args(TerminalKind)
Counters: TypeAlias = tuple[int, ...]
"""Seen and accepted of each group, in the order of the groups: (n_a, a, n_b, b)."""


@dataclass(frozen=True)
class ShieldPlan:
    """Plan of a shield.

    Attributes:
        property: The property.
        inputs: Expected arrivals.
        horizon: Number of decisions until the check, or in a period.
        kind: ``finite``: minimum cost up to the horizon; ``static-fair``: the same, repeated; ``static-bw``: welfare
            bounds, repeated; ``dynamic``: synthesised again at the start of every period; ``feasible``: overrides only
            if fairness could not be reached otherwise, for any inputs; ``greedy``: overrides if the next decision
            would be unfair.
        checks: ``end``: fair at the horizon; ``anytime``: at every time; or the times that are checked (the horizon
            always is).
        terminal: Treatment of ends that a dynamic shield cannot guarantee (Assumption 2): ``strict`` requires them
            anyway, ``exempt`` does not, ``soft`` prices unfair ends by their bias.
        bounds: Welfare bounds (lower, upper) of a static-bw shield. None: around the mean of the labels.
        start: Counters of the past, which are included in every check.
        label_wait: Maximum number of decisions that await their label. If there are more, the oldest expire and are
            not counted. Default: 10,000.
    """

    property: FairnessProperty
    inputs: Inputs
    horizon: int
    kind: PlanKind = "finite"
    checks: Literal["end", "anytime"] | tuple[int, ...] = "end"
    terminal: TerminalKind = "strict"
    bounds: tuple[Fraction, Fraction] | None = None
    start: Counters = ()
    label_wait: int = LABEL_WAIT

    def __post_init__(self) -> None:
        groups = len(self.inputs.groups)
        if not self.start:
            object.__setattr__(self, "start", (0,) * (2 * groups))
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int) or self.horizon < 1:
            raise OptionError(
                f"the horizon must be a whole number of at least 1, got {self.horizon!r}", location="horizon"
            )
        if self.kind not in PLAN_KINDS:
            raise OptionError(f"unknown kind {self.kind!r}", location="kind", hint=f"one of {', '.join(PLAN_KINDS)}")
        if self.terminal not in TERMINAL_KINDS:
            raise OptionError(
                f"unknown terminal {self.terminal!r}", location="terminal", hint=f"one of {', '.join(TERMINAL_KINDS)}"
            )
        if isinstance(self.checks, str):
            if self.checks not in ("end", "anytime"):
                raise OptionError(f"unknown checks {self.checks!r}", location="checks", hint="end, anytime, or times")
        elif any(not isinstance(t, int) or isinstance(t, bool) or not 1 <= t <= self.horizon for t in self.checks):
            raise OptionError(f"times of checks must be between 1 and {self.horizon}", location="checks")
        if self.property.labelled and self.inputs.label is None:
            raise OptionError(
                "equal opportunity requires the share of label 1 in every group", location="groups", hint="label: 0.4"
            )
        if isinstance(self.label_wait, bool) or not isinstance(self.label_wait, int) or self.label_wait < 1:
            raise OptionError(
                f"expected a positive number of decisions, got {self.label_wait!r}", location="labels.wait"
            )
        start = self.start
        fits = len(start) == 2 * groups and all(
            0 <= accepted <= size for size, accepted in zip(start[::2], start[1::2], strict=True)
        )
        if not fits:
            raise OptionError(
                f"the counters at the start are {start}", location="start", hint="seen and accepted of every group"
            )
        reach = max(start[::2]) + self.horizon
        if reach * reach * self.property.kappa.denominator >= 2**62:
            raise OptionError("the counters and kappa's denominator are too large for 64 bits", location="start")
        if self.bounds is not None:
            lower, upper = (parse_kappa(bound) for bound in self.bounds)
            if lower > upper or upper - lower > self.property.kappa:
                raise OptionError(
                    f"welfare bounds {float(lower):g} to {float(upper):g}",
                    location="bounds",
                    hint="lower first, and at most kappa apart",
                )
            object.__setattr__(self, "bounds", (lower, upper))

    @cached_property
    def digest(self) -> str:
        """Digest of the whole plan. The decisions of a shield that synthesises its periods also depend on the expected
        inputs.
        """
        return hashlib.sha256(json.dumps(asdict(self), default=str, sort_keys=True).encode()).hexdigest()

    @cached_property
    def plans_periods(self) -> bool:
        """Whether each period is synthesised again from the counters before it."""
        return self.kind == "dynamic"

    @cached_property
    def makes_periods(self) -> bool:
        """Whether a running shield synthesises its periods. Several groups within bounds share one table."""
        return self.kind in PERIODIC_KINDS and (len(self.inputs.groups) == 2 or self.kind == "dynamic")

    @cached_property
    def times(self) -> tuple[int, ...]:
        """Times of the checks, ascending, including the horizon."""
        if self.checks == "anytime":
            return tuple(range(1, self.horizon + 1))
        return tuple(sorted({self.horizon, *(() if self.checks == "end" else self.checks)}))

    def continue_from(self, start: Counters, *, horizon: int | None = None) -> ShieldPlan:
        """Return the plan that continues from other counters, for the next period or the rest of this one."""
        return replace(self, start=tuple(start), horizon=self.horizon if horizon is None else horizon)
