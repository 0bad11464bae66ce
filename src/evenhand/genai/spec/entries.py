"""What entries of configurations of generative AI are made of: numbers, names, lists, parts that never change."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.core.config import FileModel


class ConfigPart(FileModel, strict=True):
    """Some entries of a configuration: read strictly, with no others beside them, and never changed."""


def list_to_tuple(given: object) -> object:
    """Return a list as the tuple that is kept."""
    return tuple(given) if isinstance(given, list) else given


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(list_to_tuple)]
