"""Types of the entries of configurations of generative AI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.core.config import FileModel
from evenhand.errors import OptionError


class ConfigPart(FileModel, strict=True):
    """Immutable part of a configuration, without type coercion."""


def list_to_tuple(value: object) -> object:
    """Convert a list to a tuple."""
    return tuple(value) if isinstance(value, list) else value


def check_known(name: str, names: Collection[str], kind: str, location: str | None = None) -> None:
    """Raise an OptionError unless a name of some kind, such as ``group``, is known."""
    if name not in names:
        raise OptionError(f"there is no {kind} {name!r}", location=location, hint=f"one of: {', '.join(names)}")


def check_values(stated: Mapping[str, Collection[str]], groups: Mapping[str, Collection[str]], location: str) -> None:
    """Raise an OptionError unless all stated values are known values of their groups."""
    for group, values in stated.items():
        check_known(group, groups, "group", f"{location}.{group}")
        for value in values:
            check_known(value, groups[group], group, f"{location}.{group}")


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(list_to_tuple)]
