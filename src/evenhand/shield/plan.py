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
from evenhand.shield.properties import EmptyGroup, Property, kappa_from

PlanKind: TypeAlias = Literal["finite", "static-fair", "static-bw", "dynamic", "feasible", "greedy"]
PLAN_KINDS: tuple[PlanKind, ...] = get_args(PlanKind)
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
        """A plan from a mapping, or from a YAML file that holds one.

        Keys: property, kappa, horizon, kind, empty_group, cost (or costs), groups (per group: rate, accept, label,
        and with several costs the probabilities of each, costs_if_rejected and costs_if_accepted), checks, terminal,
        bounds, start (per group: seen, accepted).

        Raises:
            OptionError: a key is missing, unknown, or makes no sense.
        """
        where = None
        if not isinstance(source, Mapping):
            where, source = str(source), _loaded(Path(source))
        try:
            return _plan(source)
        except OptionError as error:
            if where is None:
                raise
            inner = f"{where}, {error.where}" if error.where else where
            raise OptionError(error.what, where=inner, mend=error.mend) from None


_KEYS = frozenset(
    {"property", "kappa", "horizon", "kind", "empty_group", "cost", "costs", "groups", "checks", "terminal", "bounds",
     "start"}
)  # fmt: skip
_GROUP_KEYS = frozenset({"rate", "accept", "label", "costs_if_rejected", "costs_if_accepted"})


def _loaded(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the file cannot be read: {error}", where=str(path)) from None
    except yaml.YAMLError as error:
        raise OptionError(f"this is not valid YAML: {error}", where=str(path)) from None
    if not isinstance(read, Mapping):
        raise OptionError("a shield's file holds property, kappa, horizon and groups", where=str(path))
    return read


def _plan(given: Mapping[str, Any]) -> Plan:
    _refuse_unknown(given, _KEYS, None)
    for needed in ("property", "kappa", "horizon", "groups"):
        if needed not in given:
            raise OptionError(f"the key {needed} is missing", mend="property, kappa, horizon and groups are needed")
    checks = given.get("checks", "end")
    bounds = given.get("bounds")
    if bounds is not None and (not isinstance(bounds, (list, tuple)) or len(bounds) != 2):
        raise OptionError("welfare bounds are a lower and an upper one", where="bounds", mend='["0.2", "0.3"]')
    groups = given["groups"]
    if not isinstance(groups, Mapping):
        raise OptionError("each group has a name and its rate and accept", where="groups")
    start = given.get("start")
    if start is not None:
        _refuse_unknown(start, frozenset(groups), "start")
        start = tuple(int(count) for group in groups for count in start.get(group, (0, 0)))
    return Plan(
        property=Property(
            given["property"], kappa_from(given["kappa"]), EmptyGroup.parse(given.get("empty_group", "zero"))
        ),
        inputs=_inputs(given, groups),
        horizon=given["horizon"],
        kind=given.get("kind", "finite"),
        checks=tuple(checks) if isinstance(checks, (list, tuple)) else checks,
        terminal=given.get("terminal", "strict"),
        bounds=None if bounds is None else (kappa_from(bounds[0]), kappa_from(bounds[1])),
        start=start or (),
    )


def _inputs(given: Mapping[str, Any], groups: Mapping[str, Any]) -> Inputs:
    if "cost" in given and "costs" in given:
        raise OptionError("both cost and costs are given", mend="one of them")
    costs = given.get("costs", [given.get("cost", 1.0)])
    if not isinstance(costs, (list, tuple)):
        raise OptionError("several costs are a list", where="costs", mend="costs: [0.1, 0.5, 1.0]")
    for name, group in groups.items():
        if not isinstance(group, Mapping):
            raise OptionError("a group has a rate and an accept", where=f"group {name}")
        _refuse_unknown(group, _GROUP_KEYS, f"group {name}")
    labels = [_number(group, "label", name) for name, group in groups.items() if "label" in group]
    if labels and len(labels) != len(groups):
        raise OptionError("some groups have a label and some do not", where="groups")
    weights = tuple(
        (_row(group, "costs_if_rejected", name, len(costs)), _row(group, "costs_if_accepted", name, len(costs)))
        for name, group in groups.items()
    )
    return Inputs(
        groups=tuple(str(name) for name in groups),
        rate=tuple(_number(group, "rate", name) for name, group in groups.items()),
        accept=tuple(_number(group, "accept", name) for name, group in groups.items()),
        label=tuple(labels) or None,
        costs=tuple(_as_number(cost, "costs") for cost in costs),
        weights=weights,
    )


def _row(group: Mapping[str, Any], key: str, name: str, costs: int) -> tuple[float, ...]:
    if key not in group and costs == 1:
        return (1.0,)
    row = group.get(key)
    if not isinstance(row, (list, tuple)) or len(row) != costs:
        raise OptionError(f"{key} is needed with several costs: one probability for each", where=f"group {name}")
    return tuple(_as_number(value, f"group {name}, {key}") for value in row)


def _number(group: Mapping[str, Any], key: str, name: str) -> float:
    if key not in group:
        raise OptionError(f"the key {key} is missing", where=f"group {name}")
    return _as_number(group[key], f"group {name}, {key}")


def _as_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f"{value!r} is no number", where=where)
    return float(value)


def _refuse_unknown(given: Mapping[str, Any], known: frozenset[str], where: str | None) -> None:
    unknown = sorted(str(key) for key in given if key not in known)
    if unknown:
        raise OptionError(f"unknown key {unknown[0]!r}", where=where, mend=f"known: {', '.join(sorted(known))}")
