"""Base classes of configurations, and translation of pydantic's errors.

Each field declares its range, unit and help text once. The code, the CLI and the reference pages all use these
definitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Self, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from evenhand.core.text import suggest_name
from evenhand.errors import EvenhandError, OptionError

T = TypeVar("T")

RELATIONS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}

NO_HINTS: Mapping[str, str] = MappingProxyType({})


def setting(default: Any, text: str, *, unit: str = "", **limits: Any) -> Any:
    """Build a field of a configuration.

    Args:
        default: Default value.
        text: One-line description, shown in the help of the option and in the reference.
        unit: Unit of a numeric setting, such as ``seconds``.
        limits: Limits of a numeric setting: ``gt``, ``ge``, ``lt`` and ``le``.
    """
    return Field(default, description=text, json_schema_extra={"unit": unit} if unit else None, **limits)


def _list_assignments(value: Any) -> Any:
    return tuple(f"{name}={entry}" for name, entry in value.items()) if isinstance(value, Mapping) else value


Assignments: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_list_assignments)]
"""Strings of the form ``NAME=VALUE``. A mapping ``{NAME: VALUE}`` is converted to such strings."""


class FileModel(BaseModel):
    """Immutable part of a configuration file, without unknown entries or infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Config(FileModel):
    """Immutable settings of an analysis.

    Raises:
        OptionError: A setting is unknown, or its value is invalid.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=True)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise translate_error(error, type(self)) from None

    @classmethod
    def of(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """Return a configuration, or the default configuration, with the given settings replaced.

        Raises:
            OptionError: A setting is unknown, or its value is invalid.
        """
        if config is None or not settings:
            return config or cls(**settings)
        return type(config)(**{**dict(config), **settings})


def check_configuration(
    make: Callable[[], T],
    model: type[BaseModel] | None = None,
    *,
    location: str | None = None,
    hints: Mapping[str, str] = NO_HINTS,
    error: type[EvenhandError] = OptionError,
) -> T:
    """Build a configuration, and translate the errors of pydantic.

    Args:
        make: Function that builds and validates the configuration.
        model: Class of the configuration. Its entries are listed in the error for an unknown entry.
        location: File or entry that contains the configuration.
        hints: As for ``translate_error``.
        error: Class of the raised error.

    Raises:
        EvenhandError: An entry is missing, unknown or invalid.
    """
    try:
        return make()
    except ValidationError as invalid:
        fault = translate_error(invalid, model, hints)
    except OptionError as invalid:
        fault = invalid
    place = ", ".join(filter(None, (location, fault.location)))
    hint = fault.hint or hints.get((fault.location or "").split(" ")[0].rpartition(".")[2])
    raise error(fault.message, location=place or None, hint=hint)


PYDANTIC_PARTS = ("literal[", "list[", "constrained-", "function-")
"""Prefixes of path elements of pydantic that are type variants, not entries."""

EXPECTATIONS = {
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "a name of at least one letter",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping from names to entries",
    "model_type": "a mapping from names to entries",
    "model_attributes_type": "a mapping from names to entries",
}


def translate_error(
    error: ValidationError, model: type[BaseModel] | None = None, hints: Mapping[str, str] = NO_HINTS
) -> EvenhandError:
    """Translate the first error of pydantic into an error about the configuration.

    Args:
        error: Error of pydantic.
        model: Class that was validated.
        hints: Hints by path of an entry, by path of its parent (``groups.*``), or by name.
    """
    faults = error.errors(include_url=False)
    # A misspelt entry causes two errors: an unknown entry and a missing entry. The first is more helpful.
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    value, context = fault.get("input"), fault.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, EvenhandError):
        return cause
    entries = {} if model is None else _known_entries(model)
    full = [str(part) for part in fault["loc"] if not str(part).startswith(PYDANTIC_PARTS)]
    # In pydantic's path, the kind of an entry follows its name. In the file, it does not.
    path = full[:1] + full[2:] if full and ".".join(full[:2]) in entries and full[0] not in entries else full
    places = [".".join(full[:length]) for length in range(len(full), -1, -1)]
    fields = next((entries[place] for place in places[1:] if place in entries), {})
    candidates = ((place, f"{parent}.*", place.rpartition(".")[2]) for place, parent in itertools.pairwise(places))
    hint = next((hints[name] for names in candidates for name in names if name in hints), None)
    location, parent, name = ".".join(path) or None, ".".join(path[:-1]) or None, "".join(path[-1:])
    match fault["type"]:
        case "missing":
            return OptionError(f"`{name}` is missing", location=parent, hint=hints.get(name))
        case "extra_forbidden":
            return unknown_entry(name, list(fields), parent)
        case "union_tag_not_found":
            return OptionError("`kind` is missing", location=location, hint=hint)
        case "union_tag_invalid":
            expected, value = _list_choices(context["expected_tags"]), context["tag"]
        case "literal_error":
            expected = _list_choices(context["expected"])
        case "too_short":
            expected, value = f"{context['min_length']} or more entries", context["actual_length"]
        case "too_long":
            expected, value = f"at most {context['max_length']} entries", context["actual_length"]
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            expected = _describe_number(fields.get(name), context)
        case kind if kind in EXPECTATIONS:
            expected = EXPECTATIONS[kind]
        case _:
            return OptionError(fault["msg"].removeprefix("Value error, "), location=location, hint=hint)
    if name == "[key]":
        expected, location, hint = "a name", ".".join(path[:-2]), f'write it as text: "{value}"'
    if fault["type"] == "tuple_type" and isinstance(value, str):
        hint = hint or f"{name}=[{value!r}]"
    return OptionError(f"expected {expected}, got {value!r}", location=location, hint=hint)


def _list_choices(choices: str) -> str:
    return f"one of: {choices.replace(' or ', ', ').replace(chr(39), '')}"


def unknown_entry(name: str, names: Sequence[str], location: str | None = None) -> OptionError:
    """Build the error for an unknown entry. Its hint suggests the nearest name."""
    hint = f"{suggest_name(name, names)}known: {', '.join(names)}" if names else None
    return OptionError(f"there is no entry {name!r}", location=location, hint=hint)


def _known_entries(model: type[BaseModel], place: str = "") -> dict[str, dict[str, FieldInfo]]:
    """Return the fields of a model and its nested models, keyed by location and kind."""
    # Excluded fields are set by the code that reads the file.
    fields = {field.alias or name: field for name, field in model.model_fields.items() if not field.exclude}
    kinds = get_args(fields["kind"].annotation) if "kind" in fields else ()
    if len(kinds) == 1:
        place = f"{place}.{kinds[0]}"
    entries = {place: fields}
    for name, field in fields.items():
        for part in _models_in(field.annotation):
            entries |= _known_entries(part, f"{place}.{name}".lstrip("."))
    return entries


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _describe_number(field: FieldInfo | None, context: Mapping[str, Any]) -> str:
    """Describe the numbers accepted by a field, such as ``a number between 0 and 1``."""
    limits = field_limits(field) if field is not None else {}
    limits = limits or {relation: context[relation] for relation in RELATIONS if relation in context}
    number = "a whole number" if field is not None and "int" in str(field.annotation) else "a number"
    unit = f" ({field_unit(field)})" if field is not None and field_unit(field) else ""
    if set(limits) in ({"gt", "lt"}, {"ge", "le"}):
        low, high = limits.values()
        return f"{number} between {low:g} and {high:g}{unit}"
    return f"{number} {' and '.join(f'{RELATIONS[relation]} {limit:g}' for relation, limit in limits.items())}{unit}"


def field_limits(field: FieldInfo) -> dict[str, float]:
    """Return the limits of a numeric field: ``gt``, ``ge``, ``lt`` and ``le``."""
    return {
        relation: limit
        for relation in RELATIONS
        for part in field.metadata
        if (limit := getattr(part, relation, None)) is not None
    }


def field_unit(field: FieldInfo) -> str:
    """Return the unit of a numeric field. Empty if it has none."""
    extra = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""
