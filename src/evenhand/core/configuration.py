"""Configurations as YAML or TOML files that a person writes: every fault is one clear error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from evenhand.core.text import suggest_name
from evenhand.errors import EvenhandError, OptionError

T = TypeVar("T")

FORMS = ("literal[", "list[", "constrained-", "function-")
"""How parts of a path begin that pydantic, not the file, put there: which form of an entry was tried."""


class FileModel(BaseModel):
    """A part of a configuration file: it never changes, has no unknown entries, and its numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def known_entries(model: type[BaseModel], place: str = "") -> dict[str, list[str]]:
    """Return the entries that a model and the models in it know, by place and kind."""
    names = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    kinds = get_args(names.get("kind"))
    if len(kinds) == 1:
        place = f"{place}.{kinds[0]}"
        names = {"kind": None, **names}
    entries = {place: list(names)}
    for name, annotation in names.items():
        for part in _models_in(annotation):
            entries |= known_entries(part, f"{place}.{name}".lstrip("."))
    return entries


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def read_configuration(
    path: Path, *, example: str, entries: str, error: type[EvenhandError] = OptionError
) -> Mapping[str, Any]:
    """Return what a YAML or TOML file holds, entries by name.

    Args:
        path: ``.toml`` is TOML, anything else YAML in which only ``true`` and ``false`` are booleans.
        example: what such a file may be called, for messages.
        entries: those that it needs, for messages.
        error: what a fault is raised as.

    Raises:
        EvenhandError: the file cannot be read, is not a mapping, or has an entry twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise error("this is not text", location=str(path), hint="write it in YAML or TOML, as UTF-8") from None
    except OSError as fault:
        raise error(
            f"the configuration cannot be read: {fault.strerror or fault}",
            location=str(path),
            hint=f"name a configuration, such as {example}",
        ) from None
    try:
        found = _parse_toml(text, path) if path.suffix.lower() == ".toml" else _parse_yaml(text, path)
    except OptionError as fault:
        raise error(fault.message, location=fault.location) from None
    if not isinstance(found, Mapping):
        given = "nothing" if found is None else "a list" if isinstance(found, list) else "a single value"
        message = f"expected entries with names, as in {example}, got {given}"
        raise error(message, location=str(path), hint=f"write {entries}")
    return found


def check_configuration(
    make: Callable[[], T],
    *,
    location: str | None = None,
    entries: Mapping[str, Iterable[str]] = MappingProxyType({}),
    hints: Mapping[str, str] = MappingProxyType({}),
) -> T:
    """Return what ``make`` makes of a configuration.

    Args:
        make: validates it, by pydantic and by hand.
        location: the file, which begins what a message says about the place.
        entries: as for ``first_fault``; hints: too.

    Raises:
        OptionError: an entry is missing, unknown, or makes no sense.
    """
    try:
        return make()
    except ValidationError as error:
        fault = first_fault(error, entries, hints)
    except OptionError as error:
        fault = error
    place = ", ".join(filter(None, (location, fault.location)))
    hint = fault.hint or hints.get((fault.location or "").split(" ")[0].rpartition(".")[2])
    raise OptionError(fault.message, location=place or None, hint=hint)


def first_fault(
    error: ValidationError,
    entries: Mapping[str, Iterable[str]] = MappingProxyType({}),
    hints: Mapping[str, str] = MappingProxyType({}),
) -> OptionError:
    """Return the first fault that pydantic found, in words of the file.

    Args:
        error: what pydantic says.
        entries: those known at every place, by the first parts of the place, kinds included.
        hints: how to go on, by the place of an entry, by the place above it (``groups.*``), or by its name.
    """
    faults = error.errors(include_url=False)
    # A misspelt entry is unknown, and the one that was meant is missing: the first of these says more.
    fault = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    full = [str(part) for part in fault["loc"] if not str(part).startswith(FORMS)]
    # The kind that was chosen stands behind its place, and not in the file.
    path = full[:1] + full[2:] if full and ".".join(full[:2]) in entries and full[0] not in entries else full
    above = [".".join(full[:length]) for length in range(len(full), -1, -1)]
    asked = ((place, f"{upper}.*", place.rpartition(".")[2]) for place, upper in itertools.pairwise(above))
    hint = next((hints[name] for names in asked for name in names if name in hints), None)
    given, context = fault.get("input"), fault.get("ctx", {})
    own = context.get("error")
    if isinstance(own, OptionError):
        return own  # it says more than pydantic makes of it
    location = ".".join(path)
    outer, last = ".".join(path[:-1]), "".join(path[-1:])
    if fault["type"] == "missing":
        return OptionError(f"`{last}` is missing", location=outer or None, hint=hints.get(last))
    if fault["type"] == "extra_forbidden":
        known = next((entries[place] for place in above[1:] if place in entries), ())
        return unknown_entry(last, list(known), outer or None)
    if fault["type"] == "union_tag_not_found":
        return OptionError("`kind` is missing", location=location, hint=hint)
    if fault["type"] == "union_tag_invalid":
        kinds = context["expected_tags"].replace("'", "")
        return OptionError(f"there is no kind {context['tag']!r}", location=location, hint=f"one of: {kinds}")
    if last == "[key]":
        outer = ".".join(path[:-2])
        return OptionError(f"expected a name, got {given!r}", location=outer, hint=f'names are texts: "{given}"')
    if fault["type"] == "literal_error":
        hint = hint or f"one of: {context['expected'].replace(' or ', ', ')}"
    if fault["type"] in ("too_short", "too_long"):
        message = f"{context['actual_length']} are given" if context["actual_length"] else "there is nothing in it"
    else:
        message = {
            "greater_than_equal": f"{given!r} is less than {context.get('ge')}",
            "less_than_equal": f"{given!r} is more than {context.get('le')}",
            "less_than": f"{given!r} is not less than {context.get('lt')}",
            "greater_than": f"{given!r} is not more than {context.get('gt')}",
            "finite_number": f"expected a finite number, got {given!r}",
            "string_type": f"expected text, got {given!r}",
            "int_type": f"expected a whole number, got {given!r}",
            "float_type": f"expected a number, got {given!r}",
            "float_parsing": f"expected a number, got {given!r}",
            "bool_type": f"{given!r} is neither true nor false",
            "list_type": f"expected a list, got {given!r}",
            "tuple_type": f"expected a list, got {given!r}",
            "dict_type": f"{given!r} is not a mapping of names",
            "model_type": f"{given!r} has no entries with names",
            "model_attributes_type": f"{given!r} has no entries with names",
            "literal_error": f"there is no {last} {given!r}",
            "string_too_short": "a name has at least one letter",
        }.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    return OptionError(message, location=location or None, hint=hint)


def unknown_entry(name: str, known: Sequence[str], location: str | None) -> OptionError:
    """Return the error about an entry that is none of those known; its hint suggests the nearest."""
    hint = f"{suggest_name(name, known)}known: {', '.join(known)}" if known else None
    return OptionError(f"there is no entry {name!r} here", location=location, hint=hint)


def _parse_toml(text: str, path: Path) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"this is not valid TOML: {error}", location=str(path)) from None


def _parse_yaml(text: str, path: Path) -> Any:
    import yaml

    class Loader(yaml_loader()):  # type: ignore[misc]  # a class made by a function
        """Refuses what YAML leaves open: an entry that is there twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = str(key.value)
                if name in seen:
                    problem = f"the entry {name!r} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(error, "problem_mark", None)
        place = f"{path}, line {line.line + 1}" if line is not None else str(path)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise OptionError(f"this is not valid YAML: {said}", location=place) from None


def yaml_loader() -> Any:
    """Return a loader of plain YAML whose words stay words: ``no``, ``on`` and ``2020-01-01`` are texts (YAML 1.2)."""
    import yaml

    # PyYAML's implicit types without booleans (`no`, `on`) and dates (2020-01-01).
    unwanted = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
            first: [pair for pair in pairs if pair[0] not in unwanted] for first, pairs in resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    return Loader
