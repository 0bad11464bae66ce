"""Parts of results."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

INHERITED = frozenset(dir(BaseModel))


class ResultPart(BaseModel):
    """Immutable part of a result. Unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __dir__(self) -> list[str]:
        return own_names(super().__dir__())


def own_names(names: Iterable[str]) -> list[str]:
    """Return the names without those inherited from ``BaseModel``, for completion in notebooks."""
    return sorted(name for name in names if name.startswith("_") or name not in INHERITED)
