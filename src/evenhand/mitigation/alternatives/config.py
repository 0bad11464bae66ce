"""Settings of a search for less discriminatory alternatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from evenhand.core.config import Config, setting

GapName: TypeAlias = Literal["gap", "ratio", "equal-opportunity", "equalized-odds"]
"""Gap between groups to reduce."""

Family: TypeAlias = Literal["reweigh", "tilt", "thresholds"]
"""Family of candidates."""

FAMILIES: tuple[Family, ...] = ("reweigh", "tilt", "thresholds")


class AlternativesConfig(Config):
    """Settings of a search for less discriminatory alternatives."""

    against: GapName = setting(
        "gap",
        "search for less discriminatory alternatives, with a smaller gap between groups: in selection rates (gap, or "
        "ratio for the lowest divided by the highest), in true positive rates, or in true and false positive rates",
    )
    methods: tuple[Family, ...] = setting(FAMILIES, "families of candidates to search", min_length=1)
    decide_without: tuple[str, ...] = setting((), "attribute that the new model must not use")
    fit: str | Callable[..., Any] | None = setting(
        None,
        "training function for models that cannot be trained again otherwise: fit(frame, labels) -> model",
        unit="module:function",
    )
    accuracy_loss: float = setting(0.01, "allowed loss of accuracy, as a share", ge=0, lt=1)
    confidence: float = setting(0.95, "simultaneous confidence level of all intervals", gt=0, lt=1)
    time_limit: float | None = setting(
        None, "time limit of the training; the trained models are compared", unit="seconds", gt=0
    )
    budget: int | None = setting(
        None, "maximum number of individuals that a black box is queried for", unit="rows", ge=1
    )
    seed: int = setting(0, "random seed", ge=0)
