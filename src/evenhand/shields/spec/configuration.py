"""Configuration files of shields, in YAML or TOML.

An invalid entry raises one error with its location and a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.core.config import FileModel, check_configuration, unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.errors import OptionError
from evenhand.shields.spec.ends import why_nothing_is_required
from evenhand.shields.spec.plan import (
    LABEL_WAIT,
    Inputs,
    PlanKind,
    ShieldPlan,
    TerminalKind,
)
from evenhand.shields.spec.properties import EmptyGroupRule, FairnessProperty, PropertyKind, parse_kappa

EXAMPLE = "{rate: 0.3, accept: 0.35}"
"""Example of the entry of a group."""


def _parse_exact(value: object) -> object:
    """Parse an exact number from a string or a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Fraction):
        raise ValueError(f"expected a number, got {value!r}")
    return _raise_as_value_error(lambda: parse_kappa(value))


def _parse_empty_group(value: object) -> object:
    return _raise_as_value_error(lambda: str(EmptyGroupRule.parse(value))) if isinstance(value, str) else value


def _raise_as_value_error(make: Callable[[], object]) -> object:
    """Convert an option error to a ValueError for pydantic."""
    try:
        return make()
    except OptionError as error:
        raise ValueError(error.message) from None


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Exact: TypeAlias = Annotated[Fraction, BeforeValidator(_parse_exact), Field(strict=False)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]


def _check_property(value: object) -> object:
    """Reject properties that shields do not support, with the reason."""
    reason = LABELLED_PROPERTIES.get(str(value).replace("equalised", "equalized"))
    if reason is not None:
        raise OptionError(
            f"a shield does not support {str(value).replace('_', ' ')}: {reason}",
            location="property",
            hint="use equal_opportunity, which bounds one rate of each group",
        )
    return value


LABELLED_PROPERTIES = {
    "equalized_odds": "it bounds two rates at once, 8 counters for two groups",
    "predictive_parity": "decisions change what is counted, and the labels of rejected people are never known",
    "calibration": "it compares scores with labels, and decisions change neither",
}
"""Reasons for unsupported properties, by name."""


class ShieldGroupConfig(FileModel, strict=True):
    """Expectations of one group.

    Attributes:
        rate: Fraction of the group among all people. The rates add up to 1. Default for ``feasible``: equal rates.
        accept: Fraction of the group that the classifier recommends to accept.
        label: Fraction of the group with label 1, for equal opportunity.
        costs_if_rejected, costs_if_accepted: Probability of each of several costs, given the recommendation.
    """

    rate: Share | None = None
    accept: Share | None = None
    label: Share | None = None
    costs_if_rejected: list[Share] | None = None
    costs_if_accepted: list[Share] | None = None


class LabelConfig(FileModel, strict=True):
    """Arrival of labels.

    Attributes:
        wait: Maximum number of decisions that await their label. If there are more, the oldest expire.
    """

    wait: Annotated[int, Field(ge=1)] = LABEL_WAIT


class ShieldConfig(FileModel, strict=True):
    """Configuration of a shield; see ``docs/reference/shield-and-monitor-files.md``.

    Attributes:
        property: Fairness property: ``demographic_parity``, ``disparate_impact`` or ``equal_opportunity``.
        kappa: Largest fair bias, exact: ``"0.1"``, ``0.1`` and ``"1/10"`` are equal.
        horizon: Number of decisions until the check, or in a period.
        kind: Kind of shield.
        empty_group: Convention for empty or small groups: ``zero``, ``vacuous`` or ``min_count=N``.
        cost: Cost of an intervention. Default: 1.
        costs: Possible costs in ascending order, instead of ``cost``.
        groups: Expectations of two or more groups, by name.
        checks: Times of the checks: ``end``, ``anytime``, or a list of numbers of decisions.
        terminal: For ``dynamic``: treatment of ends that cannot be guaranteed: ``strict``, ``soft`` or ``exempt``.
        bounds: For ``static-bw``: lower and upper acceptance rate, at most kappa apart. Default: around the mean.
        start: Initial counts, people seen and accepted of each group: ``{a: [12, 5], b: [30, 14]}``.
        labels: For ``equal_opportunity``: arrival of labels.
    """

    property: Annotated[PropertyKind, BeforeValidator(_check_property)]
    kappa: Exact
    horizon: Annotated[int, Field(ge=1)]
    kind: PlanKind = "finite"
    empty_group: Annotated[str, BeforeValidator(_parse_empty_group)] = "zero"
    cost: Annotated[float, Field(ge=0)] | None = None
    costs: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None = None
    groups: Annotated[dict[Name, ShieldGroupConfig], Field(min_length=2)]
    checks: Literal["end", "anytime"] | list[int] = "end"
    terminal: TerminalKind = "strict"
    bounds: Annotated[list[Exact], Field(min_length=2, max_length=2)] | None = None
    start: dict[Name, Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = None
    labels: LabelConfig | None = None

    def plan(self) -> ShieldPlan:
        """Build the plan of this configuration.

        Raises:
            OptionError: Entries contradict each other.
        """
        start = self._start()
        if self.labels is not None and self.property != "equal_opportunity":
            raise OptionError(
                f"`labels` requires equal_opportunity, got the property {self.property}",
                location="labels",
                hint="omit it: this property needs no labels",
            )
        plan = ShieldPlan(
            property=FairnessProperty(self.property, self.kappa, EmptyGroupRule.parse(self.empty_group)),
            inputs=self._inputs(),
            horizon=self.horizon,
            kind=self.kind,
            checks=self.checks if isinstance(self.checks, str) else tuple(self.checks),
            terminal=self.terminal,
            bounds=None if self.bounds is None else (self.bounds[0], self.bounds[1]),
            start=start,
            label_wait=(self.labels or LabelConfig()).wait,
        )
        nothing = why_nothing_is_required(plan)
        if nothing is not None:
            raise OptionError(
                f"this shield would guarantee nothing: {nothing}",
                location="bounds" if self.kind == "static-bw" else "empty_group",
                hint="a longer horizon, a larger kappa, or wider bounds"
                if self.kind == "static-bw"
                else "a longer horizon, or a smaller min_count",
            )
        return plan

    def _start(self) -> tuple[int, ...]:
        if self.start is None:
            return ()
        unknown = [name for name in self.start if name not in self.groups]
        if unknown:
            raise unknown_entry(unknown[0], list(self.groups), "start")
        return tuple(count for name in self.groups for count in self.start.get(name, (0, 0)))

    def _inputs(self) -> Inputs:
        if self.cost is not None and self.costs is not None:
            raise OptionError("both `cost` and `costs` are given", location="costs", hint="keep one of them")
        costs = (1.0 if self.cost is None else self.cost,) if self.costs is None else tuple(self.costs)
        labelled = [name for name, group in self.groups.items() if group.label is not None]
        if labelled and len(labelled) < len(self.groups):
            without = next(name for name in self.groups if name not in labelled)
            raise OptionError("some groups have a `label`, but this one has none", location=f"groups.{without}")
        return Inputs(
            groups=tuple(self.groups),
            rate=tuple(self._share(name, "rate", 1 / len(self.groups)) for name in self.groups),
            accept=tuple(self._share(name, "accept", 0.5) for name in self.groups),
            label=tuple(group.label for group in self.groups.values() if group.label is not None) or None,
            costs=costs,
            weights=tuple(
                (
                    _check_weights(group.costs_if_rejected, name, "costs_if_rejected", len(costs)),
                    _check_weights(group.costs_if_accepted, name, "costs_if_accepted", len(costs)),
                )
                for name, group in self.groups.items()
            ),
        )

    def _share(self, name: str, entry: str, otherwise: float) -> float:
        """Return an entry of a group. It is required unless the kind ignores expectations."""
        share: float | None = getattr(self.groups[name], entry)
        shares = [getattr(group, entry) for group in self.groups.values()]
        if share is None and (self.kind != "feasible" or any(other is not None for other in shares)):
            raise OptionError(f"`{entry}` is missing", location=f"groups.{name}", hint=f"write {name}: {EXAMPLE}")
        return otherwise if share is None else share


def read_plan(source: Mapping[str, Any] | str | Path) -> ShieldPlan:
    """Read a plan from a mapping or a file.

    Args:
        source: Mapping, or file in YAML, JSON or TOML.

    Raises:
        OptionError: The file cannot be read, or an entry is missing, unknown or invalid.
    """
    if isinstance(source, Mapping):
        return plan_from_mapping(source, location=None)
    path = Path(source)
    described = read_configuration(path, example="shield.yaml", entries="property:, kappa:, horizon: and groups:")
    return plan_from_mapping(described, location=str(path))


def plan_from_mapping(described: Mapping[str, Any], *, location: str | None) -> ShieldPlan:
    """Read a plan from a mapping. Errors name the ``location`` of the mapping."""

    def make() -> ShieldPlan:
        return ShieldConfig.model_validate(described).plan()

    return check_configuration(make, ShieldConfig, location=location, hints=HINTS)


def plan_to_mapping(plan: ShieldPlan) -> dict[str, Any]:
    """Convert a plan to JSON values; ``plan_from_mapping`` reads an equal plan."""
    inputs = plan.inputs
    groups: dict[str, Any] = {}
    for i, name in enumerate(inputs.groups):
        groups[name] = {"rate": inputs.rate[i], "accept": inputs.accept[i]}
        if inputs.label is not None:
            groups[name]["label"] = inputs.label[i]
        if len(inputs.costs) > 1:
            rejected, accepted = inputs.weights[i]
            groups[name] |= {"costs_if_rejected": list(rejected), "costs_if_accepted": list(accepted)}
    entries: dict[str, Any] = {
        "property": plan.property.kind,
        "kappa": format_exact(plan.property.kappa),
        "horizon": plan.horizon,
        "kind": plan.kind,
        "empty_group": str(plan.property.empty_group),
        **({"cost": inputs.costs[0]} if len(inputs.costs) == 1 else {"costs": list(inputs.costs)}),
        "groups": groups,
        "checks": plan.checks if isinstance(plan.checks, str) else list(plan.checks),
        "terminal": plan.terminal,
    }
    if plan.bounds is not None:
        entries["bounds"] = [format_exact(bound) for bound in plan.bounds]
    if any(plan.start):
        pairs = zip(plan.start[::2], plan.start[1::2], strict=True)
        entries["start"] = dict(zip(inputs.groups, map(list, pairs), strict=True))
    if plan.label_wait != LABEL_WAIT:
        entries["labels"] = {"wait": plan.label_wait}
    return entries


def format_exact(exact: Fraction) -> str:
    """Format an exact number as a decimal if that is exact, otherwise as a fraction.

    >>> format_exact(Fraction(1, 10)), format_exact(Fraction(1, 3))
    ('0.1', '1/3')
    """
    short = str(float(exact))
    return short if Fraction(short) == exact else str(exact)


def _check_weights(shares: list[float] | None, name: str, entry: str, costs: int) -> tuple[float, ...]:
    if shares is None and costs == 1:
        return (1.0,)
    if shares is None or len(shares) != costs:
        raise OptionError(
            f"{costs} costs require one probability each, got {len(shares or ())}",
            location=f"groups.{name}.{entry}",
            hint=f"write {entry}: [{', '.join([f'{1 / costs:.2g}'] * costs)}], adding up to 1",
        )
    return tuple(shares)


HINTS = {
    "property": "one of: demographic_parity, disparate_impact, equal_opportunity",
    "kappa": 'write the largest bias that is fair, such as kappa: "0.1" or "1/10"',
    "horizon": "write the number of decisions until the check, such as horizon: 100",
    "empty_group": "zero, vacuous or min_count=N with N >= 1",
    "cost": "write the cost of an override, such as cost: 1.0",
    "costs": "write the possible costs of an override, ascending, such as costs: [0.1, 0.3, 0.5]",
    "groups": f"name two or more groups, such as groups: {{a: {EXAMPLE}, b: {{rate: 0.7, accept: 0.6}}}}",
    "checks": "end, anytime, or a list of times up to the horizon",
    "bounds": 'write a lower and an upper bound, at most kappa apart, such as bounds: ["0.4", "0.5"]',
    "start": "write the earlier seen and accepted people of each group, such as start: {a: [12, 5], b: [30, 14]}",
    "rate": "write the share of the group among all arrivals, from 0 to 1",
    "accept": "write the share of the group that is recommended to be accepted, from 0 to 1",
    "label": "write the share of the group whose label is 1, from 0 to 1",
    "filter": "true or false",
    "seed": "a whole number of 0 or more",
    "labels": "write the maximum number of decisions that wait for their label: {wait: 10000}",
    "wait": "write the maximum number of decisions that wait for their label, such as labels: {wait: 10000}",
    "power": "a whole number from 1 to 16",
    "from": "a number of decisions",
    "groups.*": f"describe it, such as {EXAMPLE}",
}
"""The hint for an entry, by its name."""
