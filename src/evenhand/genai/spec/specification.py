"""Specifications of generators: conditions, concept groups, and deadlines of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import comb, prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from evenhand.core.config import check_configuration
from evenhand.core.configuration import read_configuration
from evenhand.core.text import find_repeated
from evenhand.errors import OptionError
from evenhand.genai.spec.entries import ConfigPart, Name, Names, Share, check_known, check_values, list_to_tuple
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
"""Maximum number of combinations of groups in one specification, and of their values."""


class RequestCondition(ConfigPart):
    """Condition on requests.

    Attributes:
        name: Name of the condition.
        share: Share of the requests that meet the condition in simulations.
        keywords: Words that identify prompts that meet the condition.
        judge: Question to a language model that decides whether a prompt meets the condition.
    """

    name: Name
    share: Share = 1.0
    keywords: Names = ()
    judge: Name | None = None


class Specification(ConfigPart):
    """Values that must appear among the items for a condition.

    Attributes:
        condition: Name of the condition.
        group: Concept group, such as ``age``. Exactly one of ``group`` and ``paired`` is required.
        values: Values of the group. They are specified once for each group, here or under ``groups``.
        repeated: Number of items within which every value appears repeatedly: one number for all values, one for each
            value in order, or by name.
        eventual: Whether every value must appear. Only assessments check this, because no item can be too late.
        paired: Groups whose values must appear in all combinations of ``ways`` of them.
        ways: Number of groups in a combination.
        name: Name of the specification. Default: derived from the other entries.
    """

    condition: Name
    group: Name | None = None
    values: Names | None = None
    repeated: Annotated[Any, BeforeValidator(list_to_tuple)] = None
    eventual: bool = False
    paired: Names | None = None
    ways: Annotated[int, Field(ge=2)] = 2
    name: Name | None = None


class SimulationConfig(ConfigPart):
    """Simulated generator, with the retries and slack of the enforcer.

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
        requests: Number of requests that ``misses`` refers to.
    """

    labels: Annotated[float, Field(ge=0, lt=1)] = 0.05
    misses: Annotated[float, Field(gt=0, lt=1)] = 0.01
    requests: Annotated[int, Field(ge=1)] = 100_000


@dataclass(frozen=True)
class Requirement:
    """Requirement on one group, or on one combination of paired groups.

    Attributes:
        name: Name, unique in its configuration.
        condition: Condition of the items that count.
        groups: Concept group, or the combined groups.
        values: Values of each group.
        repeated: Deadline of each combination in items, in the order of ``labels``. None if it only has to appear.
    """

    name: str
    condition: str
    groups: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    repeated: tuple[int, ...] | None

    @cached_property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """Combinations of values. The values of the last group vary fastest."""
        return tuple(product(*self.values))

    @cached_property
    def _positions(self) -> dict[tuple[str | None, ...], int]:
        return {values: k for k, values in enumerate(self.combinations)}

    def position(self, item: Mapping[str, str | None]) -> int | None:
        """Return the position of the combination that an item shows. None if one of its values is unknown."""
        return self._positions.get(tuple([item.get(group) for group in self.groups]))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the combinations, whose values are joined with `` + ``."""
        return tuple(map(" + ".join, self.combinations))

    @property
    def deadline_by_label(self) -> dict[str, int]:
        """Deadline of each combination. Empty without deadlines."""
        return dict(zip(self.labels, self.repeated or (), strict=False))


class GenerationConfig(ConfigPart):
    """Conditions and specifications of a generator, its guard, and its simulation.

    Attributes:
        conditions: Conditions on requests.
        specifications: Specifications of values.
        groups: Values of concept groups that are not listed with a specification.
        simulation: Simulated generator.
        generator: Guarded generator.
        classifier: Classifier of items.
        judge: Judge of prompts.
        guard: Configuration of the guard.
        samples: File of items with known values by group.
        tolerated: Tolerances of guarantees.
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
    def read(cls, source: GenerationConfig | Mapping[str, Any] | str | Path) -> GenerationConfig:
        """Read and check a configuration. A ``GenerationConfig`` is returned unchanged.

        Args:
            source: Mapping, or file in YAML, JSON or TOML (``.toml``). Paths of samples are relative to the file.

        Raises:
            OptionError: The file is unreadable, or an entry is missing, unknown or invalid.
        """
        if isinstance(source, GenerationConfig):
            return source
        entries = read_configuration(source, example="genai.yaml", entries="conditions: and specifications:")

        def build() -> GenerationConfig:
            configuration = cls.model_validate(entries)
            configuration.check()
            return configuration

        if isinstance(source, Mapping):
            return check_configuration(build, cls, hints=HINTS)
        configuration = check_configuration(build, cls, location=str(source), hints=HINTS)
        samples = {group: str(Path(source).parent / file) for group, file in configuration.samples.items()}
        return configuration.model_copy(update={"samples": samples})

    def check(self) -> None:
        """Raise an OptionError if the entries contradict each other."""
        conditions = [condition.name for condition in self.conditions]
        _check_unique(conditions, "conditions", "condition")
        for i, specification in enumerate(self.specifications):
            check_known(specification.condition, conditions, "condition", f"specifications.{i}.condition")
            _check_specification(specification, f"specifications.{i}")
        for name, values in self.values.items():
            if len(values) < 2:
                raise OptionError(
                    f"a group requires two or more values, but {name!r} has {len(values)}", location=f"values of {name}"
                )
            _check_unique(values, f"values of {name}", "value")
        for group, shares in self.simulation.generator.items():
            location = f"simulation.generator.{group}"
            check_known(group, self.values, "group", location)
            if len(shares) != len(self.values[group]):
                raise OptionError(
                    f"expected {len(self.values[group])} probabilities, one per value, got {len(shares)}",
                    location=location,
                )
            if abs(sum(shares) - 1) > 1e-6:
                raise OptionError(
                    f"the probabilities add up to {sum(shares):g}", location=location, hint="they must add up to 1"
                )
        check_pipeline(self.classifier, self.judge, groups=self.values, conditions=conditions)
        check_values(self.guard.instruction.values, self.values, "guard.instruction.values")
        _check_unique([requirement.name for requirement in self.requirements], "specifications", "specification")
        for group in self.samples:
            check_known(group, self.values, "group", f"samples.{group}")

    @cached_property
    def simulated(self) -> SimulationConfig:
        """The simulation, with missing entries taken from the studio if that is the generator."""
        studio = self.generator
        if not isinstance(studio, StudioGeneratorConfig):
            return self.simulation
        shares = {}
        for group, values in self.values.items():
            weights = [studio.bias.get(group, dict.fromkeys(values, 1.0)).get(value, 0.0) for value in values]
            if sum(weights) > 0:
                shares[group] = tuple(weight / sum(weights) for weight in weights)
        stated = studio.model_fields_set - self.simulation.model_fields_set
        update: dict[str, Any] = {name: getattr(studio, name) for name in {"obeys", "unrecognised"} & stated}
        return self.simulation.model_copy(update={**update, "generator": {**shares, **self.simulation.generator}})

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Values of each group.

        Raises:
            OptionError: A group has no values, or different values in two places.
        """
        values = dict(self.groups)
        for i, specification in enumerate(self.specifications):
            if specification.group is not None and specification.values is not None:
                earlier = values.setdefault(specification.group, specification.values)
                if earlier != specification.values:
                    raise OptionError(
                        f"the group {specification.group!r} has other values elsewhere: {', '.join(earlier)}",
                        location=f"specifications.{i}.values",
                        hint="write them once, or identically",
                    )
        for i, specification in enumerate(self.specifications):
            for group in specification.paired or (specification.group or "",):
                if group not in values:
                    raise OptionError(
                        f"the values of the group {group!r} are missing",
                        location=f"specifications.{i}",
                        hint=f"write groups: {{{group}: [first, second]}}, or values: with its specification",
                    )
        return values

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """Requirements of the specifications. Paired specifications have one for each combination of groups."""
        requirements = []
        for i, specification in enumerate(self.specifications):
            choices: list[tuple[str, ...]] = list(combinations(specification.paired or (), specification.ways))
            if specification.group is not None:
                choices = [(specification.group,)]
            for groups in choices:
                about = " + ".join(groups)
                if prod(len(self.values[group]) for group in groups) > MAX_COMBINATIONS:
                    raise OptionError(
                        f"{about} have more than {MAX_COMBINATIONS:,} combinations of values",
                        location=f"specifications.{i}",
                        hint="combine fewer groups: write smaller ways:",
                    )
                name = specification.name
                if name is None or len(choices) > 1:
                    name = f"{specification.condition if name is None else name}: {about}"
                values = tuple(self.values[group] for group in groups)
                requirement = Requirement(name, specification.condition, groups, values, None)
                if specification.repeated is not None:
                    location = f"specifications.{i}.repeated"
                    deadlines = expand_deadlines(specification.repeated, requirement.labels, location)
                    requirement = replace(requirement, repeated=deadlines)
                requirements.append(requirement)
        return tuple(requirements)


def expand_deadlines(deadlines: Any, labels: Sequence[str], location: str) -> tuple[int, ...]:
    """Expand one deadline for all values, one for each value in order, or deadlines by name, and check them."""
    if isinstance(deadlines, Mapping):
        for name in deadlines:
            check_known(name, labels, "value", f"{location}.{name}")
        missing = [label for label in labels if label not in deadlines]
        if missing:
            raise OptionError(
                f"the value {missing[0]!r} has no deadline",
                location=location,
                hint=f"write {missing[0]}: {len(labels) * 2}",
            )
        expanded = tuple(deadlines[label] for label in labels)
    else:
        expanded = tuple(deadlines) if isinstance(deadlines, tuple | list) else (deadlines,) * len(labels)
    if len(expanded) != len(labels):
        raise OptionError(
            f"expected {len(labels)} deadlines, one per value, got {len(expanded)}",
            location=location,
            hint=f"in this order: {', '.join(labels)}",
        )
    for deadline in expanded:
        if isinstance(deadline, bool) or not isinstance(deadline, int) or deadline < 1:
            raise OptionError(f"a deadline must be a whole number of at least 1, got {deadline!r}", location=location)
    return expanded


def _check_specification(specification: Specification, location: str) -> None:
    paired, ways = specification.paired, specification.ways
    if (specification.group is None) == (paired is None):
        raise OptionError(
            "a specification requires either one group or several paired groups",
            location=location,
            hint="write group: age, or paired: [age, gender]",
        )
    if specification.repeated is None and not specification.eventual:
        raise OptionError("there is no requirement", location=location, hint="write repeated: 10, or eventual: true")
    if paired is None:
        if "ways" in specification.model_fields_set:
            raise OptionError(
                "`ways` is for paired groups", location=f"{location}.ways", hint="write paired: [age, gender]"
            )
        return
    if specification.values is not None:
        raise OptionError(
            "paired groups take their values from groups:",
            location=f"{location}.values",
            hint="write them under groups:",
        )
    _check_unique(paired, f"{location}.paired", "group")
    if len(paired) < ways:
        raise OptionError(
            f"ways combines {ways} groups, but {len(paired)} are named",
            location=f"{location}.paired",
            hint="name more groups, or write smaller ways:",
        )
    if comb(len(paired), ways) > MAX_COMBINATIONS:
        raise OptionError(
            f"{len(paired)} groups have more than {MAX_COMBINATIONS:,} combinations of {ways}",
            location=f"{location}.paired",
            hint="name fewer groups, or write other ways:",
        )


def _check_unique(names: Sequence[str], location: str, kind: str) -> None:
    if repeated := find_repeated(names):
        raise OptionError(f"the {kind} {repeated[0]!r} is repeated", location=location, hint="give each its own name")
