"""Data schema: attributes in the order of a model's inputs, which are protected, what is decided."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from evenhand.core import first_fault, read_configuration, yaml_loader
from evenhand.errors import EvenhandError, OptionError, SchemaError
from evenhand.schema.attribute import Attribute, Encoding
from evenhand.schema.constraint import Constraint, list_words, parse_constraint
from evenhand.schema.rules import (
    Dependency,
    Entries,
    Link,
    Proposal,
    check_dependencies,
    check_links,
    entries_of,
    look_up,
)
from evenhand.schema.target import Target
from evenhand.typing import Booleans, Floats

PASSTHROUGH = "passthrough"
"""The kind, in a schema file, of a column that the model is given as it stands."""

MAX_ASSIGNMENTS = 10_000
"""More protected assignments than this per individual are refused: the answer would be too long to read."""


class Schema(BaseModel):
    """The attributes of an individual, in the order of the model's inputs.

    Attributes:
        target: what is decided.
        attributes: one ``Attribute`` per input column.
        passthrough: columns that the model is given as they stand in the data, such as identifiers, dates and texts.
            They are in no domain and never varied. In a file they are attributes of ``kind: passthrough``.
        missing_markers: strings that mean "missing" in the data, e.g. ``["?"]``.
        rules: constraints that hold for everybody who can exist, e.g. ``relationship == Husband -> sex == Male``.
        dependencies: attributes that others determine.
        links: values that stand for each other when a protected attribute changes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Target
    attributes: tuple[Attribute, ...]
    passthrough: tuple[Annotated[StrictStr, Field(min_length=1)], ...] = ()
    missing_markers: tuple[StrictStr, ...] = ()
    rules: tuple[StrictStr, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    links: tuple[Link, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not self.attributes:
            raise ValueError("a schema needs at least one attribute")
        names = [*(attribute.name for attribute in self.attributes), *self.passthrough]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"attribute names must differ, but these repeat: {repeated}")
        if self.target.name in names:
            raise ValueError(f"the target {self.target.name!r} cannot also be an attribute")
        check_dependencies(self.dependencies, self.attributes)
        check_links(self.links, self.attributes, self.constraints)
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Attribute names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """Names of the protected attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes if attribute.protected)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that a model may be given: the attributes, then the passthrough columns."""
        return (*self.names, *self.passthrough)

    @property
    def carries_rows(self) -> bool:
        """Whether individuals have one more entry, behind their attributes: the row of the data that they come from.

        What no domain describes is taken from there: passthrough columns, and what stands for an unknown value.
        """
        return bool(self.passthrough) or any(attribute.unknown is not None for attribute in self.attributes)

    @property
    def row_width(self) -> int:
        """How many entries an individual has."""
        return len(self.attributes) + self.carries_rows

    @cached_property
    def words(self) -> frozenset[str]:
        """Names of attributes and those of their values that are texts: what expressions may say without quotes."""
        return list_words(self.attributes)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The rules, ready to be checked."""
        return tuple(
            parse_constraint(text, self.attributes, location=f"rules, number {number}")
            for number, text in enumerate(self.rules, 1)
        )

    @cached_property
    def determined(self) -> tuple[tuple[int, int, Entries], ...]:
        """The dependencies in entries: column that determines, column that is determined, entry -> entry."""
        found = []
        for dependency in self.dependencies:
            one, other = dependency.between
            known = entries_of(dependency.map, self[one], self[other], "dependencies")
            found.append((self.position(one), self.position(other), known))
        return tuple(found)

    @property
    def constrains_people(self) -> bool:
        """Whether it says who can exist: there are rules, dependencies or links."""
        return bool(self.rules or self.dependencies or self.links)

    def without_rules(self) -> Schema:
        """Return the same attributes without rules, dependencies and links: as published, everybody can exist."""
        return Schema(
            target=self.target,
            attributes=self.attributes,
            passthrough=self.passthrough,
            missing_markers=self.missing_markers,
        )

    def without(self, names: Iterable[str]) -> Schema:
        """Return the schema without some attributes, and without the rules, dependencies and links that name them.

        Raises:
            SchemaError: an unknown name, or no attribute is left.
        """
        gone = set(self.positions(names))
        left = [attribute for column, attribute in enumerate(self.attributes) if column not in gone]
        known = {attribute.name for attribute in left}
        described = self.model_dump() | {
            "attributes": left,
            "rules": [one.text for one in self.constraints if gone.isdisjoint(one.columns)],
            "dependencies": [one for one in self.dependencies if known.issuperset(one.between)],
            "links": [one for one in self.links if known.issuperset((one.when, one.move))],
        }
        return Schema.parse(described)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def position(self, name: str) -> int:
        """Return where an attribute stands in an individual's row.

        Raises:
            SchemaError: there is no such attribute; the message lists those that exist.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise SchemaError(
                f"there is no attribute {name!r}", hint=f"the attributes are: {', '.join(self.names)}"
            ) from None

    def positions(self, names: Iterable[str]) -> list[int]:
        """Return where several attributes stand."""
        return [self.position(name) for name in names]

    def with_protected(self, names: Sequence[str]) -> Schema:
        """Return the same schema in which exactly these attributes are protected.

        Raises:
            SchemaError: an unknown name, or an attribute that cannot be protected.
        """
        self.positions(names)
        described = self.model_dump()
        for attribute in described["attributes"]:
            attribute["protected"] = attribute["name"] in names
        return Schema.parse(described)

    def with_encodings(self, encodings: Mapping[str, Encoding]) -> Schema:
        """Return the same schema with the encoding of some attributes said, by name.

        Raises:
            SchemaError: an unknown name, or an encoding that does not fit the attribute.
        """
        self.positions(encodings)
        described = self.model_dump()
        for attribute in described["attributes"]:
            attribute["encoding"] = encodings.get(attribute["name"], attribute["encoding"])
        return Schema.parse(described)

    @classmethod
    def parse(cls, described: Any, *, location: str | None = None) -> Schema:
        """Build from plain data (as in the YAML file), with errors that name the attribute.

        Raises:
            SchemaError: anything about the description is wrong.
        """
        described = _part_passthrough(described, location)
        try:
            return cls.model_validate(described)
        except ValidationError as error:
            raise _first_error(error, described, location) from None

    @cached_property
    def domain_size(self) -> int | None:
        """How many individuals there are, protected attributes included; None with a real attribute."""
        sizes = [attribute.size for attribute in self.attributes]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    @cached_property
    def width(self) -> int:
        """How many inputs a network that takes plain numbers must have."""
        return sum(attribute.width for attribute in self.attributes)

    def inputs(self, individuals: Floats) -> Floats:
        """Return individuals (n, attributes) as plain network inputs (n, width), by each attribute's encoding."""
        return np.concatenate(
            [attribute.inputs(individuals[:, i]) for i, attribute in enumerate(self.attributes)], axis=1
        )

    def contains(self, individuals: Floats) -> Booleans:
        """Return which individuals (n, attributes) lie in the domain, shape (n,)."""
        inside = [attribute.contains(individuals[:, i]) for i, attribute in enumerate(self.attributes)]
        return np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)

    def obeys_rules(self, individuals: Floats) -> Booleans:
        """Return for which individuals (n, attributes) all rules and dependencies hold, shape (n,).

        A missing value breaks none.
        """
        good = np.ones(len(individuals), dtype=np.bool_)
        for constraint in self.constraints:
            good &= constraint.holds(individuals)
        for one, other, known in self.determined:
            missing = np.isnan(individuals[:, [one, other]]).any(axis=1)
            good &= missing | (look_up(known, individuals[:, one]) == individuals[:, other])
        return good

    def assignments(self, names: Sequence[str] | None = None, *, among: Mapping[str, Floats] | None = None) -> Floats:
        """Return every joint assignment of the named (by default: the protected) attributes.

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
            raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
        single = [name for name in names if self[name].size == 1]
        if single:
            raise OptionError(
                f"the protected attribute {single[0]!r} has one value only, so nothing can change with it",
                hint="protect another attribute, or widen its domain in the schema",
            )
        among = among or {}
        count = math.prod(len(among[name]) if name in among else self[name].size or 1 for name in names)
        if count == 1:
            raise OptionError(
                f"the conditions leave {', '.join(names)} one value only, so nothing can change with it",
                hint="leave at least two values of what is protected",
            )
        if count > MAX_ASSIGNMENTS:
            raise OptionError(
                f"{', '.join(names)} have {count:,} joint values, more than {MAX_ASSIGNMENTS:,}",
                hint="protect fewer attributes at once, or bin a number: kind ordinal with `edges: [...]`",
            )
        domains = [among[name] if name in among else self[name].domain() for name in names]
        grids = np.meshgrid(*domains, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)


def _part_passthrough(described: Any, location: str | None) -> Any:
    """Return a description with its attributes of kind passthrough under ``passthrough``.

    Raises:
        SchemaError: such an attribute says more than its name.
    """
    listed = described.get("attributes") if isinstance(described, dict) else None
    if not isinstance(listed, list | tuple):
        return described
    kinds = [one.get("kind") if isinstance(one, dict) else None for one in listed]
    if PASSTHROUGH not in kinds:
        return described
    named = [one for one, kind in zip(listed, kinds, strict=True) if kind == PASSTHROUGH]
    for one in named:
        more = [key for key, value in one.items() if key not in ("name", "kind") and value not in (None, False)]
        if more:
            raise SchemaError(
                f"attribute {one.get('name')!r}: a passthrough column has a name and nothing else, got {more[0]}",
                location=location,
                hint="it is given to the model as it stands; what is to be varied or protected needs another kind",
            )
    rest = [one for one, kind in zip(listed, kinds, strict=True) if kind != PASSTHROUGH]
    names = [*described.get("passthrough", ()), *(one.get("name") for one in named)]
    return described | {"attributes": rest, "passthrough": names}


def _first_error(error: ValidationError, described: Any, location: str | None) -> SchemaError:
    cause = error.errors()[0].get("ctx", {}).get("error")
    if isinstance(cause, EvenhandError):
        return SchemaError(f"{cause.location}: {cause.message}", location=location, hint=cause.hint)
    known = {
        "": Schema.model_fields,
        "target": Target.model_fields,
        "attributes": Attribute.model_fields,
        "dependencies": Dependency.model_fields,
        "links": Link.model_fields,
    }
    fault = first_fault(error, known)
    path, place = (fault.location or "").split("."), ""
    if path[0] == "attributes" and len(path) > 1:
        try:
            name = described["attributes"][int(path[1])]["name"]
        except (KeyError, TypeError, IndexError):
            name = f"number {int(path[1]) + 1}"
        place, path = f"attribute {name!r}: ", path[2:]
    field = ".".join(part for part in path if part.isidentifier() and part.islower())
    message = f"{place}{field + ': ' if field and field not in fault.message else ''}{fault.message}"
    return SchemaError(message, location=location, hint=fault.hint)


HEADER = """\
# Data schema: one line per attribute, in the order of the model's inputs.
# target: what is decided, and the label that people want; for a number `kind: number`, and favourable: higher | lower
# kind: categorical | ordinal (values in order, or edges of bins) | integer | real (lower and upper, both included)
#   | passthrough (given to the model as it stands, never varied: identifiers, dates, texts)
# missing: refuse (default) | drop | keep      protected: true for what a decision must not depend on
# unknown: [what stands for a value that is not known]: counted, and left out of figures by this attribute
# written: how a number is written in the data, e.g. {before: $, thousands: ",", decimals: 2} for $1,200.50; the model
#   gets such words too, unless `given: number` says that it was trained on numbers
# encoding: which numbers a model that takes numbers gets for a categorical attribute, as it was trained:
#   code (0, 1, 2, ... in the order of values) | one-hot | [one number per value]; for other models leave it out
"""


def read_schema(path: str | Path) -> Schema:
    """Read a schema file.

    Only ``true`` and ``false`` are booleans (YAML 1.2), so that a category called ``no`` stays a word.

    Raises:
        SchemaError: the file is absent, is not YAML, or describes no valid schema.
    """
    described = read_configuration(
        Path(path), example="schema.yaml", entries="target: and attributes:", error=SchemaError
    )
    return Schema.parse(described, location=str(path))


TO_CONFIRM = """\
# Proposed from the data, with the evidence behind each. Delete what is wrong. Lines that begin with "# " do not count:
# take the "# " away from what you confirm.
"""


def schema_to_yaml(schema: Schema, proposals: Sequence[Proposal] = (), remarks: Mapping[str, str] | None = None) -> str:
    """Return the schema as YAML text; reading it back gives an equal schema.

    Args:
        schema: what to write.
        proposals: written behind the schema's own entries, each with its evidence: as entries those that are accepted,
            as comments those that a person must confirm.
        remarks: column -> what is written as a comment beside its line.
    """
    import yaml

    def remark(name: str) -> str:
        return f"  # {' '.join(remarks[name].split())}" if remarks and name in remarks else ""

    described = schema.model_dump(mode="python", exclude_defaults=True)
    lines = [HEADER, f"target: {_flow_style(described['target'])}\n"]
    if schema.missing_markers:
        lines.append(f"missing_markers: {_flow_style(list(schema.missing_markers))}\n")
    lines.append("attributes:\n")
    lines += [f"{attribute_to_yaml(attribute)}{remark(attribute.name)}\n" for attribute in schema.attributes]
    lines += [f"  - {_flow_style({'name': name, 'kind': PASSTHROUGH})}{remark(name)}\n" for name in schema.passthrough]
    lines += [TO_CONFIRM] if proposals else []
    for key, kind in (("rules", str), ("dependencies", Dependency), ("links", Link)):
        own = described.get(key, [])
        proposed = [one for one in proposals if isinstance(one.entry, kind)]
        if own or proposed:
            confirmed = own or any(one.accepted for one in proposed)
            lines.append(f"{key}:\n" if confirmed else f"# {key}:\n")
            lines += [f"  - {_flow_style(entry)}\n" for entry in own]
            lines += [_proposed_line(one) for one in proposed]
    text = "".join(lines)
    yaml.load(text, Loader=yaml_loader())
    return text


def attribute_to_yaml(attribute: Attribute) -> str:
    """Return one line of ``attributes:`` in a schema file."""
    entry = attribute.model_dump(mode="python", exclude_defaults=True)
    if attribute.encoding == "value":
        del entry["encoding"]
    if attribute.kind == "integer":
        entry["lower"], entry["upper"] = int(attribute.first), int(attribute.last)
    return f"  - {_flow_style(entry)}"


def _proposed_line(proposal: Proposal) -> str:
    entry = proposal.entry if isinstance(proposal.entry, str) else proposal.entry.model_dump()
    evidence = " ".join(proposal.evidence.split())  # it may hold values, and these anything
    return f"{'' if proposal.accepted else '# '}  - {_flow_style(entry)}  # {evidence}\n"


def write_schema(schema: Schema, path: str | Path) -> None:
    """Write the schema where a person can edit it."""
    Path(path).write_text(schema_to_yaml(schema), encoding="utf-8")


def _flow_style(value: Any) -> str:
    import yaml

    dumped = yaml.dump(
        _tuples_to_lists(value),
        Dumper=_schema_dumper(),
        default_flow_style=True,
        sort_keys=False,
        width=2**20,
        allow_unicode=True,
    )
    return str(dumped).strip().removesuffix("...").strip()


def _tuples_to_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples_to_lists(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_tuples_to_lists(inner) for inner in value]
    return value


def _schema_dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        # YAML 1.1 readers take `no` for false: quote what they would misread.
        pass

    def text(dumper: Any, value: str) -> Any:
        # Without double quotes, breaks of lines are written as they are, and those of Unicode come back as spaces.
        quoted = '"' if re.search("[\n\x85\u2028\u2029]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)

    Dumper.add_representer(str, text)
    return Dumper
