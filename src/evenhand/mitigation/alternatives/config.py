"""Settings of a search for less discriminatory alternatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from evenhand.core.config import Config, setting

GapName: TypeAlias = Literal["gap", "ratio", "equal-opportunity", "equalized-odds"]
"""What is to be reduced between groups."""

Family: TypeAlias = Literal["reweigh", "tilt", "thresholds", "lot"]
"""A family of candidates."""

FAMILIES: tuple[Family, ...] = ("reweigh", "tilt", "thresholds", "lot")


class AlternativesConfig(Config):
    """Settings of a search for less discriminatory alternatives."""

    against: GapName = setting(
        "gap",
        "search for less discriminatory alternatives, with a smaller gap between groups: in selection rates (gap, or "
        "ratio for the lowest divided by the highest), in true positive rates, or in true and false positive rates",
    )
    methods: tuple[Family, ...] = setting(FAMILIES, "families of candidates to search", min_length=1)
    decide_without: tuple[str, ...] = setting((), "attribute that the new model must not be told when it decides")
    fit: str | Callable[..., Any] | None = setting(
        None,
        "how to train such a model where that is not known: your own fit(frame, labels) -> model",
        unit="module:function",
    )
    accuracy_loss: float = setting(0.01, "accuracy that may be lost, as a share", ge=0, lt=1)
    confidence: float = setting(0.95, "confidence level at which all intervals hold together", gt=0, lt=1)
    time_limit: float | None = setting(None, "for learning; what was learnt by then is compared", unit="seconds", gt=0)
    budget: int | None = setting(
        None, "most individuals that the given model may be asked about, where it is a black box", unit="rows", ge=1
    )
    seed: int = setting(0, "same seed, same result", ge=0)
