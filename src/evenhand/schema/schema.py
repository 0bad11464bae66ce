"""Data schema: attributes in the order of the model's inputs, and the target."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from evenhand.core.config import translate_error
from evenhand.core.configuration import read_configuration, yaml_loader
from evenhand.core.text import find_repeated
from evenhand.core.typing import Booleans, Floats
from evenhand.errors import OptionError, SchemaError
from evenhand.schema.attribute import Attribute, Encoding
from evenhand.schema.constraint import Constraint, list_words, parse_constraint
from evenhand.schema.outcome import Target
from evenhand.schema.rules import Dependency, Link, Proposal, Relation, look_up, parse_dependencies, parse_links

PASSTHROUGH = "passthrough"
"""Kind of a passthrough column in a schema file."""

MAX_ASSIGNMENTS = 10_000
"""Maximum number of joint values of the protected attributes."""


class Schema(BaseModel):
    """The attributes of an individual, in the order of the model's inputs.

    Attributes:
        target: Target label or number.
        attributes: One ``Attribute`` per input column.
        passthrough: Columns that are passed to the model unchanged, such as identifiers, dates and texts. They have no
            domain and are never varied. In a schema file, they are attributes with ``kind: passthrough``.
        missing_markers: Strings that mean "missing" in the data, e.g. ``["?"]``.
        rules: Constraints on plausible individuals, e.g. ``relationship == Husband -> sex == Male``.
        dependencies: Attributes that are determined by other attributes.
        links: Corresponding values under changes of a protected attribute.
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
        names = self.columns
        if len(set(names)) < len(names):
            raise ValueError(f"attribute names must be unique, got repeated names {find_repeated(names)}")
        if self.target.name in names:
            raise ValueError(f"the target {self.target.name!r} cannot also be an attribute")
        if self.rules or self.dependencies or self.links:
            # These cached properties are validated on first access.
            _ = self.constraints, self.determined, self.moves
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
        """Names of all model input columns: the attributes, then the passthrough columns."""
        return (*self.names, *self.passthrough)

    @property
    def carries_rows(self) -> bool:
        """Whether individuals have an additional last entry, the row number of their original values.

        Passthrough columns and unknown values have no entries and are read from that row.
        """
        return bool(self.passthrough) or any(attribute.unknown is not None for attribute in self.attributes)

    @cached_property
    def words(self) -> frozenset[str]:
        """Attribute names and text values, which expressions may contain without quotes."""
        return list_words(self.attributes)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Parsed rules."""
        return tuple(
            parse_constraint(text, self.attributes, location=f"rules, number {number}")
            for number, text in enumerate(self.rules, 1)
        )

    @cached_property
    def determined(self) -> tuple[Relation, ...]:
        """Dependencies as relations with a single row."""
        return parse_dependencies(self.dependencies, self.attributes)

    @cached_property
    def moves(self) -> tuple[Relation, ...]:
        """Links as relations."""
        return parse_links(self.links, self.attributes, self.constraints)

    @property
    def constrains_people(self) -> bool:
        """Whether the schema has rules, dependencies or links."""
        return bool(self.rules or self.dependencies or self.links)

    def without_rules(self) -> Schema:
        """Return a copy without rules, dependencies and links."""
        return Schema.parse(self.model_dump(exclude={"rules", "dependencies", "links"}))

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def position(self, name: str) -> int:
        """Return the column of an attribute.

        Raises:
            SchemaError: The attribute is unknown.
        """
        if name not in self.names:
            hint = f"the attributes are: {', '.join(self.names)}"
            raise SchemaError(f"there is no attribute {name!r}", hint=hint)
        return self.names.index(name)

    def positions(self, names: Iterable[str]) -> list[int]:
        """Return the columns of several attributes."""
        return [self.position(name) for name in names]

    def with_protected(self, names: Sequence[str]) -> Schema:
        """Return a copy in which exactly these attributes are protected.

        Raises:
            SchemaError: A name is unknown, or an attribute cannot be protected.
        """
        self.positions(names)
        return self._with_field("protected", {name: name in names for name in self.names})

    def with_encodings(self, encodings: Mapping[str, Encoding]) -> Schema:
        """Return a copy with new encodings of the given attributes.

        Raises:
            SchemaError: A name is unknown, or an encoding is invalid for the attribute.
        """
        self.positions(encodings)
        return self._with_field("encoding", encodings)

    def _with_field(self, field: str, values: Mapping[str, Any]) -> Schema:
        data = self.model_dump()
        for attribute in data["attributes"]:
            attribute[field] = values.get(attribute["name"], attribute[field])
        return Schema.parse(data)

    @classmethod
    def parse(cls, data: Any, *, location: str | None = None) -> Schema:
        """Build a schema from plain data, such as the content of a YAML file.

        Raises:
            SchemaError: The data are invalid; the message states the attribute.
        """
        data = _move_passthrough(data, location)
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _to_schema_error(error, data, location) from None

    @cached_property
    def width(self) -> int:
        """Number of inputs of a network with numeric inputs."""
        return sum(attribute.width for attribute in self.attributes)

    def inputs(self, individuals: Floats) -> Floats:
        """Encode individuals (n, attributes) as network inputs, shape (n, width)."""
        return np.concatenate(
            [attribute.inputs(individuals[:, i]) for i, attribute in enumerate(self.attributes)], axis=1
        )

    def contains(self, individuals: Floats) -> Booleans:
        """Check whether individuals (n, attributes) are in the domain, shape (n,)."""
        inside = [attribute.contains(individuals[:, i]) for i, attribute in enumerate(self.attributes)]
        return np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)

    def obeys_rules(self, individuals: Floats) -> Booleans:
        """Check whether individuals (n, attributes) obey all rules and dependencies, shape (n,).

        A missing value violates no rule.
        """
        obeys = np.ones(len(individuals), dtype=np.bool_)
        for constraint in self.constraints:
            obeys &= constraint.holds(individuals)
        for relation in self.determined:
            sources, values = individuals[:, relation.source], individuals[:, relation.column]
            obeys &= np.isnan(sources) | np.isnan(values) | (look_up(relation.rows[0], sources) == values)
        return obeys

    def assignments(self, names: Sequence[str] | None = None, *, among: Mapping[str, Floats] | None = None) -> Floats:
        """List all combinations of values of the given attributes.

        Args:
            names: Attributes to assign values to. Default: the protected attributes.
            among: Allowed entries by attribute name. Default: the whole domain.

        Returns:
            Entries, shape (assignments, len(names)), in lexicographic order.

        Raises:
            OptionError: No attribute is protected, an attribute has a single value, or there are too many assignments.
        """
        names = self.protected if names is None else names
        if not names:
            raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
        for name in names:
            if self[name].size == 1:
                raise OptionError(
                    f"the protected attribute {name!r} has only one value",
                    hint="protect another attribute, or extend its domain in the schema",
                )
        among = among or {}
        count = math.prod(len(among[name]) if name in among else self[name].size or 1 for name in names)
        if count == 1:
            raise OptionError(
                f"the conditions leave only one value of {', '.join(names)}",
                hint="leave at least two values of the protected attributes",
            )
        if count > MAX_ASSIGNMENTS:
            raise OptionError(
                f"{', '.join(names)} have {count:,} joint values, more than {MAX_ASSIGNMENTS:,}",
                hint="protect fewer attributes at once, or bin a number: kind ordinal with `edges: [...]`",
            )
        domains = [among[name] if name in among else self[name].domain() for name in names]
        return np.stack([grid.ravel() for grid in np.meshgrid(*domains, indexing="ij")], axis=1)


def _move_passthrough(data: Any, location: str | None) -> Any:
    """Move attributes of kind passthrough to the field ``passthrough``."""
    entries = data.get("attributes") if isinstance(data, dict) else None
    if not isinstance(entries, list | tuple):
        return data
    columns = [entry for entry in entries if isinstance(entry, dict) and entry.get("kind") == PASSTHROUGH]
    for entry in columns:
        for field, value in entry.items():
            if field not in ("name", "kind") and value not in (None, False):
                raise SchemaError(
                    f"attribute {entry.get('name')!r}: a passthrough column takes only a name, got {field}",
                    location=location,
                    hint=f"remove {field}, or choose another kind to vary or protect the attribute",
                )
    if not columns:
        return data
    names = [entry.get("name") for entry in columns]
    attributes = [entry for entry in entries if entry not in columns]
    return data | {"attributes": attributes, "passthrough": [*data.get("passthrough", ()), *names]}


def _to_schema_error(error: ValidationError, data: Any, location: str | None) -> SchemaError:
    fault = translate_error(error, Schema)
    if fault is error.errors()[0].get("ctx", {}).get("error"):
        return SchemaError(f"{fault.location}: {fault.message}", location=location, hint=fault.hint)
    path, prefix = (fault.location or "").split("."), ""
    if path[0] == "attributes" and len(path) > 1:
        try:
            name = data["attributes"][int(path[1])]["name"]
        except (KeyError, TypeError, IndexError):
            name = f"number {int(path[1]) + 1}"
        prefix, path = f"attribute {name!r}: ", path[2:]
    field = ".".join(part for part in path if part.isidentifier() and part.islower())
    message = f"{prefix}{field + ': ' if field and field not in fault.message else ''}{fault.message}"
    return SchemaError(message, location=location, hint=fault.hint)


HEADER = """\
# Data schema: one line per attribute, in the order of the model's inputs.
# target: the decided label and its favourable value; for a number `kind: number`, and favourable: higher | lower
# kind: categorical | ordinal (values in order, or edges of bins) | integer | real (lower and upper, both included)
#   | passthrough (passed to the model unchanged, never varied: identifiers, dates, texts)
# missing: refuse (default) | drop | keep      protected: true if decisions must not depend on the attribute
# unknown: [values that mean "unknown"]: counted, and excluded from results by this attribute
# number_format: {decimals: 2} for numbers that the data store as text, such as 12.50; the model receives text in this
#   format, unless it was trained on numbers: `model_input: number`
# encoding: numbers that encode a categorical attribute for a model with numeric inputs, as in training:
#   code (0, 1, 2, ... in the order of values) | one-hot | [one number per value]; omit it for other models
"""


def read_schema(path: str | Path) -> Schema:
    """Read a schema file.

    Only ``true`` and ``false`` are Booleans (YAML 1.2), so a category ``no`` remains a string.

    Raises:
        SchemaError: The file does not exist, is not YAML, or is not a valid schema.
    """
    data = read_configuration(Path(path), example="schema.yaml", entries="target: and attributes:", error=SchemaError)
    return Schema.parse(data, location=str(path))


TO_CONFIRM = """\
# Proposed from the data, with the evidence for each. Delete wrong lines. Lines that begin with "# " have no effect:
# remove the "# " to confirm them.
"""


def schema_to_yaml(schema: Schema, proposals: Sequence[Proposal] = (), remarks: Mapping[str, str] | None = None) -> str:
    """Format the schema as YAML; parsing the text gives an equal schema.

    Args:
        schema: Schema to format.
        proposals: Proposed entries with their evidence, written after the schema's own entries. Proposals that are not
            accepted are commented out.
        remarks: Comments by column name.
    """
    import yaml

    fields = schema.model_dump(mode="python", exclude_defaults=True)
    lines = [HEADER, f"target: {_flow_style(fields['target'])}\n"]
    if schema.missing_markers:
        lines.append(f"missing_markers: {_flow_style(schema.missing_markers)}\n")
    columns = {attribute.name: attribute_to_yaml(attribute) for attribute in schema.attributes}
    columns |= {name: f"  - {_flow_style({'name': name, 'kind': PASSTHROUGH})}" for name in schema.passthrough}
    lines.append("attributes:\n")
    lines += [f"{entry}{_comment((remarks or {}).get(name, ''))}\n" for name, entry in columns.items()]
    lines += [TO_CONFIRM] if proposals else []
    for key, kind in (("rules", str), ("dependencies", Dependency), ("links", Link)):
        entries = [("", entry, "") for entry in fields.get(key, [])]
        for proposal in proposals:
            if isinstance(proposal.entry, kind):
                entry = proposal.entry if isinstance(proposal.entry, str) else proposal.entry.model_dump()
                entries.append(("" if proposal.accepted else "# ", entry, proposal.evidence))
        if entries:
            disabled = all(prefix for prefix, _, _ in entries)
            lines.append(f"{'# ' if disabled else ''}{key}:\n")
            lines += [f"{prefix}  - {_flow_style(entry)}{_comment(evidence)}\n" for prefix, entry, evidence in entries]
    text = "".join(lines)
    yaml.load(text, Loader=yaml_loader())
    return text


def _comment(text: str) -> str:
    # A line break in a value would end the comment.
    return f"  # {' '.join(text.split())}" if text else ""


def attribute_to_yaml(attribute: Attribute) -> str:
    """Format an attribute as a line of a schema file."""
    entry = attribute.model_dump(mode="python", exclude_defaults=True)
    if attribute.encoding == "value":
        del entry["encoding"]
    if attribute.kind == "integer":
        entry["lower"], entry["upper"] = int(attribute.first), int(attribute.last)
    return f"  - {_flow_style(entry)}"


def write_schema(schema: Schema, path: str | Path) -> None:
    """Write a schema file."""
    Path(path).write_text(schema_to_yaml(schema), encoding="utf-8")


def _flow_style(value: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        # Representers are registered per class, so yaml.SafeDumper itself is not changed.
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_text(dumper: Any, value: str) -> Any:
        # Quote text with line breaks, because plain scalars would turn them into spaces.
        quotes = '"' if re.search("[\n\x85\u2028\u2029]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=quotes)

    Dumper.add_representer(str, represent_text)
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=True, sort_keys=False, width=2**20, allow_unicode=True)
    return str(text).strip().removesuffix("...").strip()
