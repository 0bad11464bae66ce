"""What entries of configurations of generative AI are made of: numbers, names, lists, parts that never change."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class ConfigPart(BaseModel):
    """Some entries of a configuration: read strictly, with no others beside them, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def check_number(given: object) -> object:
    """Return what is a number, and not true or false."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"expected a number, got {given!r}")
    return float(given)


def check_whole(given: object) -> object:
    """Return what is a whole number, and not true or false."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"expected a whole number, got {given!r}")
    return given


def list_to_tuple(given: object) -> object:
    """Return a list as the tuple that is kept."""
    return tuple(given) if isinstance(given, list) else given


Number: TypeAlias = Annotated[float, BeforeValidator(check_number)]
Share: TypeAlias = Annotated[float, BeforeValidator(check_number), Field(ge=0, le=1)]
Whole: TypeAlias = Annotated[int, BeforeValidator(check_whole)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(list_to_tuple)]
