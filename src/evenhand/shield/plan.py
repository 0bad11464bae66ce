"""What is asked of a shield: property, expected inputs, horizon, kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from evenhand.errors import OptionError
from evenhand.shield.inputs import Inputs
from evenhand.shield.properties import Property, kappa_from

PlanKind: TypeAlias = Literal["finite", "static-fair", "static-bw", "dynamic", "feasible", "greedy"]
PLAN_KINDS: tuple[PlanKind, ...] = get_args(PlanKind)
PERIODIC: tuple[PlanKind, ...] = ("static-fair", "static-bw", "dynamic", "greedy")
"""Kinds that go on after their horizon, see `periodic`."""
TerminalKind: TypeAlias = Literal["strict", "exempt", "soft"]
TERMINAL_KINDS: tuple[TerminalKind, ...] = get_args(TerminalKind)
Counters: TypeAlias = tuple[int, ...]
"""Seen and accepted of each group, in the order of the groups: (n_a, a, n_b, b)."""


@dataclass(frozen=True)
class Plan:
    """The problem that a shield solves.

    Attributes:
        property: what is kept.
        inputs: who is expected.
        horizon: decisions until the check, or in a period.
        kind: ``finite``: at least cost up to the horizon; ``static-fair``: that, repeated; ``static-bw``: welfare
            bounds, repeated; ``dynamic``: synthesised anew at the start of every period; ``feasible``: overrides only
            when fairness could not be reached otherwise, whoever is expected; ``greedy``: overrides when the next
            decision would be unfair.
        checks: ``end``: fair at the horizon; ``anytime``: at every time; or the times that are checked (the horizon
            always is).
        terminal: for dynamic shields, at the end of a period that may not be kept (Assumption 2): ``strict`` keeps it
            all the same, ``exempt`` does not, ``soft`` makes unfair ends as expensive as they are far from fair.
        bounds: the welfare bounds (lower, upper) of a static-bw shield; None: around the mean of the labels.
        start: counters carried over from before; they count in every check.
    """

    property: Property
    inputs: Inputs
    horizon: int
    kind: PlanKind = "finite"
    checks: Literal["end", "anytime"] | tuple[int, ...] = "end"
    terminal: TerminalKind = "strict"
    bounds: tuple[Fraction, Fraction] | None = None
    start: Counters = ()

    def __post_init__(self) -> None:
        groups = len(self.inputs.groups)
        if not self.start:
            object.__setattr__(self, "start", (0,) * (2 * groups))
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int) or self.horizon < 1:
            raise OptionError(f"a horizon is a whole number of 1 or more, not {self.horizon!r}", where="horizon")
        if self.kind not in PLAN_KINDS:
            raise OptionError(f"unknown kind {self.kind!r}", where="kind", mend=f"one of {', '.join(PLAN_KINDS)}")
        if self.terminal not in TERMINAL_KINDS:
            raise OptionError(
                f"unknown terminal {self.terminal!r}", where="terminal", mend=f"one of {', '.join(TERMINAL_KINDS)}"
            )
        if isinstance(self.checks, str):
            if self.checks not in ("end", "anytime"):
                raise OptionError(f"unknown checks {self.checks!r}", where="checks", mend="end, anytime, or times")
        elif any(not isinstance(t, int) or isinstance(t, bool) or not 1 <= t <= self.horizon for t in self.checks):
            raise OptionError(f"a time that is checked lies between 1 and {self.horizon}", where="checks")
        if self.property.labelled and self.inputs.label is None:
            raise OptionError(
                "equal opportunity needs the share of label 1 in every group", where="groups", mend="label: 0.4"
            )
        start = self.start
        fits = len(start) == 2 * groups and all(
            0 <= accepted <= seen for seen, accepted in zip(start[::2], start[1::2], strict=True)
        )
        if not fits:
            raise OptionError(
                f"the counters at the start are {start}", where="start", mend="seen and accepted of every group"
            )
        reach = max(start[::2]) + self.horizon
        if reach * reach * self.property.kappa.denominator >= 2**62:
            raise OptionError("the counters and kappa's denominator are too large for 64 bits", where="start")
        if self.bounds is not None:
            lower, upper = (kappa_from(bound) for bound in self.bounds)
            if lower > upper or upper - lower > self.property.kappa:
                raise OptionError(
                    f"welfare bounds {float(lower):g} to {float(upper):g}",
                    where="bounds",
                    mend="lower first, and at most kappa apart",
                )
            object.__setattr__(self, "bounds", (lower, upper))

    @cached_property
    def times(self) -> tuple[int, ...]:
        """When the bias is checked, ascending; the horizon always is."""
        if self.checks == "anytime":
            return tuple(range(1, self.horizon + 1))
        return tuple(sorted({self.horizon, *(() if self.checks == "end" else self.checks)}))

    def continued(self, start: Counters, *, horizon: int | None = None) -> Plan:
        """The same plan from other counters on, for a next period or for what is left of this one."""
        return replace(self, start=tuple(start), horizon=self.horizon if horizon is None else horizon)

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> Plan:
        """A plan from a mapping, or from a YAML or TOML file that holds one; see `config`.

        Raises:
            OptionError: the file cannot be read, or an entry is missing, unknown, or makes no sense.
        """
        from evenhand.shield.config import read_plan  # which needs this module

        return read_plan(source)
