"""Pieces that the entries of a configuration are made of."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Part(BaseModel):
    """Some entries of a configuration: read strictly, with no others beside them, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def number(given: object) -> object:
    """What is a number, and not true or false."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{given!r} is no number")
    return float(given)


def whole(given: object) -> object:
    """What is a whole number, and not true or false."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{given!r} is no whole number")
    return given


def several(given: object) -> object:
    """A list as the tuple that is kept."""
    return tuple(given) if isinstance(given, list) else given


Number: TypeAlias = Annotated[float, BeforeValidator(number)]
Share: TypeAlias = Annotated[float, BeforeValidator(number), Field(ge=0, le=1)]
Whole: TypeAlias = Annotated[int, BeforeValidator(whole)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(several)]
