"""Settings of a search for less discriminatory alternatives."""

from __future__ import annotations

from typing import Literal, TypeAlias

from evenhand.core.config import setting
from evenhand.mitigation.config import StudyConfig

GapName: TypeAlias = Literal["gap", "ratio", "equal-opportunity", "equalized-odds"]
"""Gap between groups to reduce."""

Family: TypeAlias = Literal["reweigh", "tilt", "thresholds"]
"""Family of candidates."""

FAMILIES: tuple[Family, ...] = ("reweigh", "tilt", "thresholds")


class AlternativesConfig(StudyConfig):
    """Settings of a search for less discriminatory alternatives."""

    against: GapName = setting(
        "gap",
        "search for less discriminatory alternatives, with a smaller gap between groups: in selection rates (gap, or "
        "ratio for the lowest divided by the highest), in true positive rates, or in true and false positive rates",
    )
    methods: tuple[Family, ...] = setting(FAMILIES, "families of candidates to search", min_length=1)
    decide_without: tuple[str, ...] = setting((), "attributes that the new model must not use")
