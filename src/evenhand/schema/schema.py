"""What an individual is: attributes in the order of a model's inputs, which are protected, what is decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError, model_validator

from evenhand.errors import OptionError, SchemaError
from evenhand.schema.attribute import Attribute, Value

MAX_ASSIGNMENTS = 10_000
"""More protected assignments than this per individual are refused: nobody could read the answer."""


class Target(BaseModel):
    """What is decided about a person.

    Attributes:
        name: the column of the true label.
        favourable: the label a person would want.
        values: all labels. Left out, they are ``favourable`` and everything else the data holds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    favourable: Value
    values: tuple[Value, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Target:
        if self.values is not None:
            if len(self.values) < 2:
                raise ValueError("a target needs at least two labels: with one there is no decision to look at")
            if self.favourable not in self.values:
                raise ValueError(f"favourable {self.favourable!r} is not among the labels {list(self.values)}")
        return self


class Schema(BaseModel):
    """The attributes of an individual, in the order of the model's inputs.

    Attributes:
        target: what is decided.
        attributes: one ``Attribute`` per input column.
        missing_markers: strings that mean "missing" in the data, e.g. ``["?"]``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Target
    attributes: tuple[Attribute, ...]
    missing_markers: tuple[StrictStr, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.attributes:
            raise ValueError("a schema needs at least one attribute")
        names = [attribute.name for attribute in self.attributes]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"attribute names must differ, but these repeat: {repeated}")
        if self.target.name in names:
            raise ValueError(f"the target {self.target.name!r} cannot also be an attribute")
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Attribute names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """Names of the protected attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes if attribute.protected)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def position(self, name: str) -> int:
        """Where an attribute stands in an individual's row.

        Raises:
            SchemaError: there is no such attribute; the message lists those that exist.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise SchemaError(
                f"there is no attribute {name!r}", mend=f"the attributes are: {', '.join(self.names)}"
            ) from None

    def positions(self, names: Iterable[str]) -> list[int]:
        """Where several attributes stand."""
        return [self.position(name) for name in names]

    def protect(self, names: Sequence[str]) -> Schema:
        """The same schema in which exactly these attributes are protected.

        Raises:
            SchemaError: an unknown name, or an attribute that cannot be protected.
        """
        self.positions(names)
        described = self.model_dump()
        for attribute in described["attributes"]:
            attribute["protected"] = attribute["name"] in names
        return Schema.parse(described)

    @classmethod
    def parse(cls, described: Any, *, where: str | None = None) -> Schema:
        """Build from plain data (as in the YAML file), with errors that name the attribute.

        Raises:
            SchemaError: anything about the description is wrong.
        """
        try:
            return cls.model_validate(described)
        except ValidationError as error:
            raise SchemaError(_first_fault(error, described), where=where) from None

    @cached_property
    def domain_size(self) -> int | None:
        """How many individuals there are, protected attributes included; None with a real attribute."""
        sizes = [attribute.size for attribute in self.attributes]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    @cached_property
    def width(self) -> int:
        """How many inputs a network that takes plain numbers must have."""
        return sum(attribute.width for attribute in self.attributes)

    def inputs(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Individuals (n, attributes) as plain network inputs (n, width), by each attribute's encoding."""
        return np.concatenate(
            [attribute.inputs(individuals[:, i]) for i, attribute in enumerate(self.attributes)], axis=1
        )

    def contains(self, individuals: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which individuals (n, attributes) lie in the domain, shape (n,)."""
        inside = [attribute.contains(individuals[:, i]) for i, attribute in enumerate(self.attributes)]
        return np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)

    def assignments(
        self, names: Sequence[str] | None = None, *, among: Mapping[str, NDArray[np.float64]] | None = None
    ) -> NDArray[np.float64]:
        """Every joint assignment of the named (by default: the protected) attributes.

        Args:
            names: attributes to assign values to.
            among: for some of them the entries to choose from, in place of the whole domain.

        Returns:
            Entries, shape (assignments, len(names)), in lexicographic order.

        Raises:
            OptionError: no attribute is protected, one has a single value, or there are too many assignments.
        """
        names = self.protected if names is None else names
        if not names:
            raise OptionError("no attribute is protected", mend="name at least one: --protected NAME")
        single = [name for name in names if self[name].size == 1]
        if single:
            raise OptionError(
                f"the protected attribute {single[0]!r} has one value only, so nothing can change with it",
                mend="protect another attribute, or widen its domain in the schema",
            )
        among = among or {}
        count = math.prod(len(among[name]) if name in among else self[name].size or 1 for name in names)
        if count == 1:
            raise OptionError(
                f"the conditions leave {', '.join(names)} one value only, so nothing can change with it",
                mend="leave at least two values of what is protected",
            )
        if count > MAX_ASSIGNMENTS:
            raise OptionError(
                f"{', '.join(names)} have {count:,} joint values, more than {MAX_ASSIGNMENTS:,}",
                mend="protect fewer attributes at once, or bin a number: kind ordinal with `edges: [...]`",
            )
        domains = [among[name] if name in among else self[name].domain() for name in names]
        grids = np.meshgrid(*domains, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)


def _first_fault(error: ValidationError, described: Any) -> str:
    fault = error.errors()[0]
    path = list(fault["loc"])
    place = ""
    if path[:1] == ["attributes"] and len(path) > 1 and isinstance(path[1], int):
        index = path[1]
        try:
            name = described["attributes"][index]["name"]
        except (KeyError, TypeError, IndexError):
            name = f"number {index + 1}"
        place = f"attribute {name!r}: "
        path = path[2:]
    field = ".".join(str(part) for part in path if isinstance(part, str) and part.islower())
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}{field + ': ' if field and field not in message else ''}{message}"
