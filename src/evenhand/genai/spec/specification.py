"""Specifications of generators: conditions, concept groups, and deadlines of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import comb, prod
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.core.config import check_configuration
from evenhand.core.configuration import read_configuration
from evenhand.errors import OptionError
from evenhand.genai.spec.entries import (
    ConfigPart,
    Name,
    Names,
    Share,
    list_to_tuple,
)
from evenhand.genai.spec.pipeline_config import (
    HINTS,
    ClassifierConfig,
    GeneratorConfig,
    GuardConfig,
    JudgeConfig,
    StudioGeneratorConfig,
    check_pipeline,
)

MAX_COMBINATIONS = 10_000
"""Combinations of groups in one specification, and of values in each of them, at most."""


def _parse_deadlines(given: object) -> object:
    """Return one deadline, one for every value in their order, or by name."""
    if given is None or isinstance(given, int | tuple | list | Mapping):
        parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple | list) else [given]
        for part in parts:
            if part is not None and (isinstance(part, bool) or not isinstance(part, int)):
                raise ValueError(f"expected a whole number, got {part!r}")
            if part is not None and part < 1:
                raise ValueError(f"a deadline of {part} items cannot be met")
        return list_to_tuple(given)
    raise ValueError(f"expected a deadline, got {given!r}")


Deadlines: TypeAlias = Annotated[Any, BeforeValidator(_parse_deadlines)]


class RequestCondition(ConfigPart):
    """Condition on requests.

    Attributes:
        name: Name of the condition.
        share: Share of the requests that meet it in simulations.
        keywords: Words that identify prompts that meet it.
        judge: Question to a language model that decides whether a prompt meets it.
    """

    name: Name
    share: Share = 1.0
    keywords: Names = ()
    judge: Name | None = None


class Specification(ConfigPart):
    """What must appear among the items whose condition holds.

    Attributes:
        condition: its name.
        group: the concept group, such as ``age``; or ``paired``: several of them.
        values: of the group; needed once for every group, here or under ``groups``.
        repeated: every value appears within so many items, again and again: one number, one for every value in their
            order, or by name.
        eventual: every value appears; a sequence can be assessed for that, but no item can be too late.
        paired: groups whose values are wanted in all combinations of ``ways`` of them.
        ways: 2 for pairs.
        name: for results; made from the others if left out.
    """

    condition: Name
    group: Name | None = None
    values: Names | None = None
    repeated: Deadlines = None
    eventual: bool = False
    paired: Names | None = None
    ways: Annotated[int, Field(ge=2)] = 2
    name: Name | None = None


class SimulationConfig(ConfigPart):
    """Simulated generator, and the retries and slack of the enforcer.

    Attributes:
        generator: Probability of each value by group, without instructions. Default: those of the studio, with its
            ``obeys`` and ``unrecognised``.
        obeys: Probability that an instruction is obeyed.
        unrecognised: Share of items without a recognisable value.
        retries: Maximum number of repetitions of an item that does not show the required values.
        slack: Number of consecutive useless items that do not cause a missed deadline.
        in_flight: Number of concurrent requests.
    """

    generator: dict[Name, Annotated[tuple[Share, ...], BeforeValidator(list_to_tuple)]] = Field(default_factory=dict)
    obeys: Share = 1.0
    unrecognised: Share = 0.0
    retries: Annotated[int, Field(ge=0)] = 2
    slack: Annotated[int, Field(ge=0, le=1000)] = 0
    in_flight: Annotated[int, Field(ge=1)] = 1


class ToleranceConfig(ConfigPart):
    """Tolerances up to which a deadline is called guaranteed.

    Attributes:
        labels: Share of wrong labels among the items labelled with a value.
        misses: Probability that any deadline is missed.
        requests: Number of requests to which ``misses`` refers.
    """

    labels: Annotated[float, Field(ge=0, lt=1)] = 0.05
    misses: Annotated[float, Field(gt=0, lt=1)] = 0.01
    requests: Annotated[int, Field(ge=1)] = 100_000


@dataclass(frozen=True)
class Requirement:
    """One thing that must appear: a specification on one group, or one of the combinations of a paired one.

    Attributes:
        name: Name, unique in its configuration.
        condition: Condition of the items that count.
        groups: Concept group, or the combined groups.
        values: Values of each group.
        combinations: Positions of the values of each combination, in the order of ``labels``.
        repeated: Deadline of each combination in items. None if it only has to appear.
    """

    name: str
    condition: str
    groups: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    repeated: tuple[int, ...] | None

    @cached_property
    def combinations(self) -> tuple[tuple[int, ...], ...]:
        return tuple(product(*(range(len(values)) for values in self.values)))

    @property
    def deadline_by_label(self) -> dict[str, int]:
        """Deadline of each value. Empty without deadlines."""
        return dict(zip(self.labels, self.repeated or (), strict=False))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the values. Combined values are joined with `` + ``."""
        return tuple(
            " + ".join(self.values[g][position] for g, position in enumerate(positions))
            for positions in self.combinations
        )


class GenerationConfig(ConfigPart):
    """Conditions, what must appear under each, and how to simulate a generator.

    Attributes:
        conditions: in the order of the file.
        specifications: in the order of the file.
        groups: values of concept groups that are not listed with a specification.
        simulation: of a generator.
        generator: the one that is guarded, if any.
        classifier: what looks at its items.
        judge: what tells which conditions a prompt asks for.
        guard: how the generator is guarded.
        samples: of items whose true values are known too: for a group, or for several joined with `` + ``, the file.
        tolerated: what is still called a guarantee.
    """

    conditions: Annotated[tuple[RequestCondition, ...], BeforeValidator(list_to_tuple), Field(min_length=1)]
    specifications: Annotated[tuple[Specification, ...], BeforeValidator(list_to_tuple), Field(min_length=1)]
    groups: dict[Name, Names] = Field(default_factory=dict)
    simulation: SimulationConfig = Field(default_factory=SimulationConfig)
    generator: GeneratorConfig | None = None
    classifier: ClassifierConfig | None = None
    judge: JudgeConfig | None = None
    guard: GuardConfig = Field(default_factory=GuardConfig)
    samples: dict[Name, Name] = Field(default_factory=dict)
    tolerated: ToleranceConfig = Field(default_factory=ToleranceConfig)

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> GenerationConfig:
        """Return the configuration that a mapping or a file describes.

        Args:
            source: a mapping, or a file in YAML (JSON too) or, named ``.toml``, in TOML. Samples are looked for where
                the file is.

        Raises:
            OptionError: the file cannot be read, or an entry is missing, unknown, or makes no sense.
        """
        if isinstance(source, Mapping):
            described, place = source, None
        else:
            place, entries = Path(source), "conditions: and specifications:"
            described = read_configuration(place, example="genai.yaml", entries=entries)

        def make() -> GenerationConfig:
            read = cls.model_validate(described)
            read.check()
            return read

        read = check_configuration(make, cls, location=None if place is None else str(place), hints=HINTS)
        if place is None:
            return read
        samples = {about: str(place.parent / file) for about, file in read.samples.items()}
        return read.model_copy(update={"samples": samples})

    def check(self) -> None:
        """Raise an OptionError where entries that are right alone do not fit together."""
        _check_unique([condition.name for condition in self.conditions], "conditions", "condition")
        known = [condition.name for condition in self.conditions]
        for i, specification in enumerate(self.specifications):
            location = f"specifications.{i}"
            if specification.condition not in known:
                raise OptionError(
                    f"there is no condition {specification.condition!r}",
                    location=f"{location}.condition",
                    hint=f"one of: {', '.join(known)}",
                )
            if (specification.group is None) == (specification.paired is None):
                raise OptionError(
                    "a specification is about one group or about several paired ones",
                    location=location,
                    hint="write group: age, or paired: [age, gender]",
                )
            if specification.repeated is None and not specification.eventual:
                raise OptionError(
                    "nothing is asked for", location=location, hint="write repeated: 10, or eventual: true"
                )
            _check_groups(specification, location)
        for name, values in self.values.items():
            _check_values(name, values)
        self._check_simulation()
        check_pipeline(
            self.generator,
            self.classifier,
            self.judge,
            groups=self.values,
            conditions=[condition.name for condition in self.conditions],
        )
        self._check_wording()
        _check_unique([requirement.name for requirement in self.requirements], "specifications", "specification")
        for about in self.samples:
            for group in about.split(" + "):
                if group not in self.values:
                    raise OptionError(
                        f"there is no group {group!r}",
                        location=f"samples.{about}",
                        hint=f"one of: {', '.join(self.values)}; several are joined with ' + '",
                    )
            together = [" + ".join(requirement.groups) for requirement in self.requirements]
            if about not in self.values and about not in together:
                raise OptionError(
                    f"no specification is about {about}",
                    location=f"samples.{about}",
                    hint=f"one of: {', '.join(together)}",
                )

    def _check_wording(self) -> None:
        told = self.guard.instruction
        wordings = {"": told, **{f".languages.{name}": one for name, one in told.languages.items()}}
        for place, wording in wordings.items():
            for group, words in wording.values.items():
                location = f"guard.instruction{place}.values.{group}"
                if group not in self.values:
                    raise OptionError(
                        f"there is no group {group!r}", location=location, hint=f"one of: {', '.join(self.values)}"
                    )
                unknown = [value for value in words if value not in self.values[group]]
                if unknown:
                    known = ", ".join(self.values[group])
                    raise OptionError(
                        f"{group} has no value {unknown[0]!r}", location=location, hint=f"one of: {known}"
                    )

    def _check_simulation(self) -> None:
        for group, shares in self.simulation.generator.items():
            location = f"simulation.generator.{group}"
            if group not in self.values:
                known = ", ".join(self.values)
                raise OptionError(f"there is no group {group!r}", location=location, hint=f"one of: {known}")
            if len(shares) != len(self.values[group]):
                raise OptionError(
                    f"{len(self.values[group])} values need as many probabilities, and there are {len(shares)}",
                    location=location,
                )
            if abs(sum(shares) - 1) > 1e-6:
                raise OptionError(
                    f"the probabilities add up to {sum(shares):g}", location=location, hint="they must add up to 1"
                )

    @cached_property
    def simulated(self) -> SimulationConfig:
        """The simulation, with what it leaves out taken from the studio, if that is the generator."""
        studio, told = self.generator, self.simulation
        if not isinstance(studio, StudioGeneratorConfig):
            return told
        shares = {}
        for group, values in self.values.items():
            weights = [studio.bias.get(group, dict.fromkeys(values, 1.0)).get(value, 0.0) for value in values]
            if sum(weights) > 0:
                shares[group] = tuple(weight / sum(weights) for weight in weights)
        left_out = {"obeys", "unrecognised"} & (studio.model_fields_set - told.model_fields_set)
        also: dict[str, Any] = {name: getattr(studio, name) for name in left_out}
        return told.model_copy(update={**also, "generator": {**shares, **told.generator}})

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of every group.

        Raises:
            OptionError: a group has none, or different ones in two places.
        """
        found = dict(self.groups)
        for i, specification in enumerate(self.specifications):
            if specification.group is not None and specification.values is not None:
                before = found.setdefault(specification.group, specification.values)
                if before != specification.values:
                    raise OptionError(
                        f"the group {specification.group!r} has other values elsewhere: {', '.join(before)}",
                        location=f"specifications.{i}.values",
                        hint="write them once, or the same",
                    )
        for i, specification in enumerate(self.specifications):
            for group in specification.paired or (specification.group or "",):
                if group not in found:
                    raise OptionError(
                        f"the values of the group {group!r} are missing",
                        location=f"specifications.{i}",
                        hint=f"write groups: {{{group}: [first, second]}}, or values: with its specification",
                    )
        return found

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What must appear, one by one: paired specifications taken apart into their combinations of groups."""
        found = []
        for i, specification in enumerate(self.specifications):
            several = (
                [(specification.group,)]
                if specification.group is not None
                else list(combinations(specification.paired or (), specification.ways))
            )
            for groups in several:
                about = " + ".join(groups)
                if prod(len(self.values[group]) for group in groups) > MAX_COMBINATIONS:
                    raise OptionError(
                        f"{about} have more than {MAX_COMBINATIONS:,} combinations of values",
                        location=f"specifications.{i}",
                        hint="combine fewer groups: write smaller ways:",
                    )
                plain = f"{specification.condition}: {about}"
                given = specification.name
                name = plain if given is None else given if len(several) == 1 else f"{given}: {about}"
                requirement = Requirement(
                    name, specification.condition, groups, tuple(self.values[group] for group in groups), None
                )
                deadlines = _expand_deadlines(specification.repeated, requirement, f"specifications.{i}.repeated")
                found.append(Requirement(name, specification.condition, groups, requirement.values, deadlines))
        return tuple(found)


def _expand_deadlines(given: Any, requirement: Requirement, location: str) -> tuple[int, ...] | None:
    labels = requirement.labels
    if given is None:
        return None
    if isinstance(given, int):
        return (given,) * len(labels)
    if isinstance(given, Mapping):
        for name in given:
            if name not in labels:
                raise OptionError(
                    f"there is no value {name!r}", location=f"{location}.{name}", hint=f"one of: {', '.join(labels)}"
                )
        missing = [label for label in labels if label not in given]
        if missing:
            raise OptionError(
                f"the value {missing[0]!r} has no deadline",
                location=location,
                hint=f"write {missing[0]}: {len(labels) * 2}",
            )
        return tuple(given[label] for label in labels)
    if len(given) != len(labels):
        raise OptionError(
            f"{len(labels)} values need as many deadlines, and there are {len(given)}",
            location=location,
            hint=f"in this order: {', '.join(labels)}",
        )
    return tuple(given)


def _check_groups(specification: Specification, location: str) -> None:
    paired = specification.paired
    if paired is None:
        if "ways" in specification.model_fields_set:
            raise OptionError(
                "`ways` is for paired groups", location=f"{location}.ways", hint="write paired: [age, gender]"
            )
        return
    if specification.values is not None:
        raise OptionError(
            "paired groups have their values elsewhere", location=f"{location}.values", hint="write them under groups:"
        )
    _check_unique(list(paired), f"{location}.paired", "group")
    if len(paired) < specification.ways:
        raise OptionError(
            f"{specification.ways} groups are combined, and {len(paired)} named",
            location=f"{location}.paired",
            hint="name more groups, or write smaller ways:",
        )
    if comb(len(paired), specification.ways) > MAX_COMBINATIONS:
        raise OptionError(
            f"{len(paired)} groups have more than {MAX_COMBINATIONS:,} combinations of {specification.ways}",
            location=f"{location}.paired",
            hint="name fewer groups, or write other ways:",
        )


def _check_values(group: str, values: tuple[str, ...]) -> None:
    location = f"values of {group}"
    if len(values) < 2:
        raise OptionError(f"a group has two or more values, and {group!r} has {len(values)}", location=location)
    _check_unique(list(values), location, "value")


def _check_unique(names: list[str], location: str, what: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise OptionError(f"the {what} {name!r} is there twice", location=location, hint="give each its own name")
        seen.add(name)
