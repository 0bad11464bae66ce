"""A shield's configuration as people write it, in YAML or TOML: read, checked, and turned into a plan.

Every fault is one error that says what is wrong, at which entry of which file, and how to mend it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evenhand.errors import OptionError
from evenhand.schema.configuration import read_configuration
from evenhand.shield.inputs import Inputs
from evenhand.shield.plan import Plan, PlanKind, TerminalKind
from evenhand.shield.properties import EmptyGroup, Property, PropertyKind, kappa_from

if TYPE_CHECKING:
    from evenhand.shield.robust import Ranges

EXAMPLE = "{rate: 0.3, accept: 0.35}"
"""What the description of a group looks like."""


def _number(given: object) -> object:
    """Numbers are numbers: neither truth values nor texts."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{given!r} is no number")
    return given


def _exact(given: object) -> object:
    """An exact number from a text, or from a number as it is written."""
    if isinstance(given, bool) or not isinstance(given, str | int | float | Fraction):
        raise ValueError(f"{given!r} is no number")
    return _said(lambda: kappa_from(given))


def _whole(given: object) -> object:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{given!r} is no whole number")
    return given


def _convention(given: object) -> object:
    return _said(lambda: str(EmptyGroup.parse(given))) if isinstance(given, str) else given


def _said(make: Callable[[], object]) -> object:
    """What is made, or its complaint as one that pydantic hands on."""
    try:
        return make()
    except OptionError as error:
        raise ValueError(error.what) from None


def _ends(given: object) -> object:
    """The ends of a range of probabilities; a number is both of them."""
    ends = tuple(given) if isinstance(given, list | tuple) else (given, given)
    if len(ends) != 2:
        raise ValueError(f"a range has two ends, and {len(ends)} are given")
    for end in ends:
        number = float(str(_number(end)))
        if not 0 <= number <= 1:
            raise ValueError(f"{end!r} is {'less than 0' if number < 0 else 'more than 1'}")
    low, high = (float(str(end)) for end in ends)
    if low > high:
        raise ValueError(f"the range {low:g} to {high:g} begins above its end")
    return low, high


Number: TypeAlias = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1)]
Likely: TypeAlias = Annotated[tuple[float, float], BeforeValidator(_ends)]
Exact: TypeAlias = Annotated[Fraction, BeforeValidator(_exact), Field(strict=False)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class GroupEntry(_Part):
    """What is expected of one group.

    Attributes:
        rate: share of the group among those who come; equal shares for kinds that expect nothing.
        accept: share of the group that the classifier recommends to accept.
        label: share of the group whose label is 1, for equal opportunity.
        costs_if_rejected, costs_if_accepted: with several costs, how likely each one is given the recommendation.

    What is not known is a range, a list of its two ends.
    """

    rate: Likely | None = None
    accept: Likely | None = None
    label: Likely | None = None
    costs_if_rejected: list[Share] | None = None
    costs_if_accepted: list[Share] | None = None


class ShieldFile(_Part):
    """A whole configuration; see ``docs/reference/shield-file.md`` for what every entry means."""

    property: PropertyKind
    kappa: Exact
    horizon: Annotated[Whole, Field(ge=1)]
    kind: PlanKind = "finite"
    empty_group: Annotated[str, BeforeValidator(_convention)] = "zero"
    cost: Annotated[Number, Field(ge=0)] | None = None
    costs: Annotated[list[Annotated[Number, Field(ge=0)]], Field(min_length=1)] | None = None
    groups: Annotated[dict[Name, GroupEntry], Field(min_length=2)]
    checks: Literal["end", "anytime"] | list[Whole] = "end"
    terminal: TerminalKind = "strict"
    bounds: Annotated[list[Exact], Field(min_length=2, max_length=2)] | None = None
    start: dict[Name, Annotated[list[Annotated[Whole, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = None

    def plan(self) -> Plan:
        """The plan that it describes.

        Raises:
            OptionError: entries that are right alone do not fit together.
        """
        start = self._start()
        return Plan(
            property=Property(self.property, self.kappa, EmptyGroup.parse(self.empty_group)),
            inputs=self._inputs(),
            horizon=self.horizon,
            kind=self.kind,
            checks=self.checks if isinstance(self.checks, str) else tuple(self.checks),
            terminal=self.terminal,
            bounds=None if self.bounds is None else (self.bounds[0], self.bounds[1]),
            start=start,
        )

    def _start(self) -> tuple[int, ...]:
        if self.start is None:
            return ()
        unknown = [name for name in self.start if name not in self.groups]
        if unknown:
            raise _unknown(unknown[0], list(self.groups), "start")
        return tuple(count for name in self.groups for count in self.start.get(name, (0, 0)))

    def _inputs(self) -> Inputs:
        if self.cost is not None and self.costs is not None:
            raise OptionError("both `cost` and `costs` are given", where="costs", mend="keep one of them")
        costs = (1.0 if self.cost is None else self.cost,) if self.costs is None else tuple(self.costs)
        labelled = [name for name, group in self.groups.items() if group.label is not None]
        if labelled and len(labelled) < len(self.groups):
            without = next(name for name in self.groups if name not in labelled)
            raise OptionError("some groups have a `label` and this one has none", where=f"groups.{without}")
        return Inputs(
            groups=tuple(self.groups),
            rate=tuple(self._share(name, "rate", 1 / len(self.groups)) for name in self.groups),
            accept=tuple(self._share(name, "accept", 0.5) for name in self.groups),
            label=tuple(middle(group.label) for group in self.groups.values() if group.label is not None) or None,
            costs=costs,
            weights=tuple(
                (
                    _weights(group.costs_if_rejected, name, "costs_if_rejected", len(costs)),
                    _weights(group.costs_if_accepted, name, "costs_if_accepted", len(costs)),
                )
                for name, group in self.groups.items()
            ),
        )

    def _share(self, name: str, entry: str, otherwise: float) -> float:
        """An entry of a group, which may be left out only where nothing is expected."""
        given: tuple[float, float] | None = getattr(self.groups[name], entry)
        others = [getattr(group, entry) for group in self.groups.values()]
        if given is None and (self.kind != "feasible" or any(other is not None for other in others)):
            raise OptionError(f"`{entry}` is missing", where=f"groups.{name}", mend=f"write {name}: {EXAMPLE}")
        return otherwise if given is None else middle(given)

    def ranges(self, inputs: Inputs) -> Ranges | None:
        """What is only known within ranges, if anything is; ``inputs`` are their middles.

        Raises:
            OptionError: ranges are of no use for this kind or number of groups, or do not fit together.
        """
        groups = list(self.groups.values())
        likely = [[group.rate, group.accept, group.label] for group in groups]
        if all(ends is None or ends[0] == ends[1] for group in likely for ends in group):
            return None
        if len(groups) != 2 or self.kind != "finite":
            raise OptionError("ranges are for two groups and kind finite", where="groups", mend="write numbers")
        (rate, accept, label), (other, other_accept, other_label) = likely
        assert rate is not None
        assert other is not None
        assert accept is not None
        assert other_accept is not None
        if abs(rate[0] + other[1] - 1) > 1e-6 or abs(rate[1] + other[0] - 1) > 1e-6:
            raise OptionError(
                "the ranges of the rates do not add up to 1",
                where=f"groups.{inputs.groups[1]}.rate",
                mend=f"write rate: [{1 - rate[1]:.6g}, {1 - rate[0]:.6g}]",
            )
        labels = None if label is None or other_label is None else (label, other_label)

        from evenhand.shield.robust import Ranges  # which builds on synthesis

        return Ranges(inputs, rate, (accept, other_accept), labels)


def middle(ends: tuple[float, float]) -> float:
    """What is taken for likely of a range."""
    return ends[0] if ends[0] == ends[1] else (ends[0] + ends[1]) / 2


def read_plan(source: Mapping[str, Any] | str | Path) -> Plan:
    """The plan that a mapping or a file describes; of ranges their middles.

    Args:
        source: a mapping, or a file in YAML (JSON too) or, named ``.toml``, in TOML.

    Raises:
        OptionError: the file cannot be read, or an entry is missing, unknown, or makes no sense.
    """
    return read_with_ranges(source)[0]


def read_with_ranges(source: Mapping[str, Any] | str | Path) -> tuple[Plan, Ranges | None]:
    """The plan as from ``read_plan``, and the ranges of what is not known; None if all is."""
    if isinstance(source, Mapping):
        return _read(source, where=None)
    path = Path(source)
    described = read_configuration(path, example="shield.yaml", entries="property:, kappa:, horizon: and groups:")
    return _read(described, where=str(path))


def plan_from(described: Mapping[str, Any], *, where: str | None) -> Plan:
    """The plan that a mapping describes; ``where`` it comes from begins what a complaint says about the place."""
    return _read(described, where=where)[0]


def _read(described: Mapping[str, Any], *, where: str | None) -> tuple[Plan, Ranges | None]:
    try:
        read = ShieldFile.model_validate(described)
        plan = read.plan()
        return plan, read.ranges(plan.inputs)
    except ValidationError as error:
        fault = _fault(error)
    except OptionError as error:
        fault = error
    place = ", ".join(part for part in (where, fault.where) if part)
    mend = fault.mend or MENDS.get((fault.where or "").split(" ")[0].rpartition(".")[2])
    raise OptionError(fault.what, where=place or None, mend=mend)


def described(plan: Plan) -> dict[str, Any]:
    """A plan as a mapping that JSON can hold; ``plan_from`` gives an equal plan."""
    inputs = plan.inputs
    groups: dict[str, Any] = {}
    for i, name in enumerate(inputs.groups):
        groups[name] = {"rate": inputs.rate[i], "accept": inputs.accept[i]}
        if inputs.label is not None:
            groups[name]["label"] = inputs.label[i]
        if len(inputs.costs) > 1:
            rejected, accepted = inputs.weights[i]
            groups[name] |= {"costs_if_rejected": list(rejected), "costs_if_accepted": list(accepted)}
    found: dict[str, Any] = {
        "property": plan.property.kind,
        "kappa": written(plan.property.kappa),
        "horizon": plan.horizon,
        "kind": plan.kind,
        "empty_group": str(plan.property.empty_group),
        **({"cost": inputs.costs[0]} if len(inputs.costs) == 1 else {"costs": list(inputs.costs)}),
        "groups": groups,
        "checks": plan.checks if isinstance(plan.checks, str) else list(plan.checks),
        "terminal": plan.terminal,
    }
    if plan.bounds is not None:
        found["bounds"] = [written(bound) for bound in plan.bounds]
    if any(plan.start):
        pairs = zip(plan.start[::2], plan.start[1::2], strict=True)
        found["start"] = dict(zip(inputs.groups, map(list, pairs), strict=True))
    return found


def written(exact: Fraction) -> str:
    """An exact number as a decimal where that is as exact, else as a fraction.

    >>> written(Fraction(1, 10)), written(Fraction(1, 3))
    ('0.1', '1/3')
    """
    short = str(float(exact))
    return short if Fraction(short) == exact else str(exact)


def _weights(given: list[float] | None, name: str, entry: str, costs: int) -> tuple[float, ...]:
    if given is None and costs == 1:
        return (1.0,)
    if given is None or len(given) != costs:
        raise OptionError(
            f"{costs} costs need as many probabilities, and there are {len(given or ())}",
            where=f"groups.{name}.{entry}",
            mend=f"write {entry}: [{', '.join([f'{1 / costs:.2g}'] * costs)}], adding up to 1",
        )
    return tuple(given)


MENDS = {
    "property": "one of: demographic_parity, disparate_impact, equal_opportunity",
    "kappa": 'write the largest bias that is fair, such as kappa: "0.1" or "1/10"',
    "horizon": "write how many decisions are made until the check, such as horizon: 100",
    "empty_group": "zero, vacuous or min_count=N with N of 1 or more",
    "cost": "write what an override costs, such as cost: 1.0",
    "costs": "write what overrides can cost, ascending, such as costs: [0.1, 0.3, 0.5]",
    "groups": f"name two or more groups, such as groups: {{a: {EXAMPLE}, b: {{rate: 0.7, accept: 0.6}}}}",
    "checks": "end, anytime, or a list of times up to the horizon",
    "bounds": 'write a lower and an upper one, at most kappa apart, such as bounds: ["0.4", "0.5"]',
    "start": "write what was seen and accepted of each group before, such as start: {a: [12, 5], b: [30, 14]}",
    "rate": "write the share of the group among those who come, from 0 to 1",
    "accept": "write the share of the group that is recommended to be accepted, from 0 to 1",
    "label": "write the share of the group whose label is 1, from 0 to 1",
}
"""How to mend an entry, by its name."""


def _fault(error: ValidationError) -> OptionError:
    """The first fault, in words of the file."""
    fault = error.errors(include_url=False)[0]
    path = [str(part) for part in fault["loc"] if not _of_a_type(str(part))]
    entry = next((part for part in reversed(path) if part in MENDS), "")
    mend = MENDS.get(entry)
    given, context = fault.get("input"), fault.get("ctx", {})
    if fault["type"] == "missing":
        return OptionError(f"`{path[-1]}` is missing", where=".".join(path[:-1]) or None, mend=MENDS.get(path[-1]))
    if fault["type"] == "extra_forbidden":
        known = GroupEntry.model_fields if path[:1] == ["groups"] else ShieldFile.model_fields
        return _unknown(path[-1], list(known), ".".join(path[:-1]) or None)
    if path[-1:] == ["[key]"]:
        return OptionError(
            f"{given!r} is no name of a group", where=".".join(path[:-2]), mend=f'names are texts: "{given}"'
        )
    said = {
        "literal_error": f"there is no {entry or '.'.join(path)} {given!r}",
        "greater_than_equal": f"{given!r} is less than {context.get('ge')}",
        "less_than_equal": f"{given!r} is more than {context.get('le')}",
        "finite_number": f"{given!r} is no finite number",
        "string_type": f"{given!r} is no text",
        "list_type": f"{given!r} is no list",
        "dict_type": f"{given!r} is not a mapping of names",
        "model_type": f"{given!r} has no entries with names",
    }.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    if fault["type"] == "literal_error" and entry not in MENDS:
        mend = f"one of: {context.get('expected', '').replace(' or ', ', ')}"
    if fault["type"] in ("too_short", "too_long"):
        said = f"{context.get('actual_length')} are given"
    if fault["type"] == "model_type" and path[:1] == ["groups"]:
        mend = f"write {path[-1]}: {EXAMPLE}"
    return OptionError(said, where=".".join(path) or None, mend=mend)


def _of_a_type(part: str) -> bool:
    """Whether pydantic, not the file, put this into a path: which form of an entry was tried."""
    return part.startswith(("literal[", "list[", "constrained-", "function-"))


def _unknown(name: str, known: list[str], where: str | None) -> OptionError:
    close = get_close_matches(name, known, n=1)
    mend = f"did you mean {close[0]!r}? " if close else ""
    return OptionError(f"there is no entry {name!r} here", where=where, mend=f"{mend}known: {', '.join(known)}")
