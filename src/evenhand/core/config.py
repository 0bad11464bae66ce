"""The base of every configuration: a field says its range, its unit and its help once, for code, commands and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evenhand.core.text import suggest_name
from evenhand.errors import EvenhandError, OptionError

RELATIONS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}


def setting(default: Any, text: str, *, unit: str = "", **limits: Any) -> Any:
    """Return a field of a configuration.

    Args:
        default: its value where none is given.
        text: what it is, in one line: the help of an option and the row of a table.
        unit: of the number, such as ``seconds``.
        limits: ``gt``, ``ge``, ``lt``, ``le``: what a number must be above, at least, below, at most.
    """
    return Field(default, description=text, json_schema_extra={"unit": unit} if unit else None, **limits)


def _list_assignments(given: Any) -> Any:
    return tuple(f"{name}={value}" for name, value in given.items()) if isinstance(given, Mapping) else given


Assignments: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_list_assignments)]
"""Texts ``NAME=VALUE``, as an option is given; a mapping ``{NAME: VALUE}`` becomes such."""


class Config(BaseModel):
    """Settings of one analysis: checked when made, never changed afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise _as_option_error(type(self), error) from None

    @classmethod
    def of(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """Return a configuration, or the default one, with some settings in place of its own.

        Raises:
            OptionError: a setting is unknown or outside its range.
        """
        return cls(**{**(dict(config) if config is not None else {}), **settings})


def _as_option_error(config: type[Config], error: ValidationError) -> EvenhandError:
    """Say what the first fault is: what was expected, and what was given."""
    fault = error.errors(include_url=False)[0]
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, EvenhandError):
        return inner
    name, given = str(fault["loc"][0]), fault["input"]
    if fault["type"] == "extra_forbidden":
        known = list(config.model_fields)
        hint = suggest_name(name, known) or f"known: {', '.join(known)}"
        return OptionError(f"expected a setting of {config.__name__}, got {name}", hint=hint.strip())
    expected = _expectation(config, name, fault["type"])
    if fault["type"] == "tuple_type" and isinstance(given, str):
        return OptionError(f"expected several, got one text: {given!r}", location=name, hint=f"{name}=[{given!r}]")
    received = "nothing" if fault["type"] == "missing" else repr(given)
    return OptionError(f"expected {expected}, got {received}", location=name)


def _expectation(config: type[Config], name: str, fault: str) -> str:
    """Return what a field must be, in words: ``a number between 0 and 1``, or ``one of: a, b``."""
    choices = field_choices(config, name)
    if choices:
        return f"one of: {', '.join(choices)}"
    kind = str(config.model_fields[name].annotation)
    number = "a whole number" if "int" in kind else "a number" if "float" in kind else ""
    limits = field_limits(config, name)
    if not number or not limits or fault.endswith(("_parsing", "_type", "_from_float")):
        return "a finite number" if fault == "finite_number" else number or "at least one value"
    unit = f" ({field_unit(config, name)})" if field_unit(config, name) else ""
    if set(limits) in ({"gt", "lt"}, {"ge", "le"}):
        low, high = limits.values()
        return f"{number} between {low:g} and {high:g}{unit}"
    return f"{number} {' and '.join(f'{RELATIONS[kind]} {limit:g}' for kind, limit in limits.items())}{unit}"


def field_limits(config: type[Config], name: str) -> dict[str, float]:
    """Return the limits of a number: ``gt``, ``ge``, ``lt``, ``le``."""
    found = {
        kind: getattr(part, kind)
        for part in config.model_fields[name].metadata
        for kind in RELATIONS
        if getattr(part, kind, None) is not None
    }
    return {kind: found[kind] for kind in RELATIONS if kind in found}


def field_choices(config: type[Config], name: str) -> tuple[str, ...]:
    """Return the words that a field may be; none if it is not a choice."""
    annotation = config.model_fields[name].annotation
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            return tuple(map(str, get_args(part)))
    return ()


def field_unit(config: type[Config], name: str) -> str:
    """Return the unit of a number, or nothing."""
    extra = config.model_fields[name].json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""
